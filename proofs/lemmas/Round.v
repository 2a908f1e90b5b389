(* docs/privacy/lattice.md, Lemma 1: a + round(x) = round(a + x) for integers a: always for half up, and for any other rule of ties
   wherever x is none (a null set of every Gaussian). *)
From Coq Require Import Reals Lra Lia ZArith.
From Flocq Require Import Core.
Open Scope R_scope.

(* Half up: floor(x + 1/2). *)
Definition round_up (x : R) : Z := Zfloor (x + / 2).

Lemma Zfloor_add (a : Z) (x : R) : Zfloor (IZR a + x) = (a + Zfloor x)%Z.
Proof.
apply Zfloor_imp. rewrite !plus_IZR.
pose proof (Zfloor_lb x). pose proof (Zfloor_ub x). simpl. lra.
Qed.

Theorem round_up_add (a : Z) (x : R) : round_up (IZR a + x) = (a + round_up x)%Z.
Proof. unfold round_up. rewrite Rplus_assoc. apply Zfloor_add. Qed.

(* Nearest, with any rule for ties: equal wherever x is no tie, that is but for a null set of Gaussians. *)
Theorem Znearest_add (choice : Z -> bool) (a : Z) (x : R) :
  x - IZR (Zfloor x) <> / 2 -> Znearest choice (IZR a + x) = (a + Znearest choice x)%Z.
Proof.
intros H. apply Znearest_imp. rewrite plus_IZR.
replace (IZR a + x - (IZR a + IZR (Znearest choice x))) with (x - IZR (Znearest choice x)) by ring.
destruct (Rle_lt_or_eq_dec _ _ (Znearest_half choice x)) as [L|E]; [exact L|exfalso].
apply H. clear H.
pose proof (Zfloor_lb x) as LB. pose proof (Zfloor_ub x) as UB.
destruct (Znearest_DN_or_UP choice x) as [D|U].
- rewrite D in E. rewrite Rabs_pos_eq in E; lra.
- rewrite U in E.
  assert (C : (Zceil x <= Zfloor x + 1)%Z) by (apply Zceil_glb; rewrite plus_IZR; simpl; lra).
  apply IZR_le in C. rewrite plus_IZR in C. simpl in C.
  pose proof (Zceil_ub x). rewrite Rabs_left1 in E by lra.
  assert (IZR (Zceil x) = IZR (Zfloor x) + 1 \/ IZR (Zceil x) = IZR (Zfloor x)) as [K|K].
  { destruct (Req_dec (IZR (Zfloor x)) x) as [I|N].
    - right. rewrite <- I at 1. now rewrite Zceil_IZR.
    - left. rewrite (Zceil_floor_neq x N), plus_IZR. reflexivity. }
  + lra.
  + lra.
Qed.

(* Ties matter: half to even (and half away from zero) does not commute with odd shifts. *)
Theorem half_even_breaks : (1 + ZnearestE (/ 2) <> ZnearestE (IZR 1 + / 2))%Z.
Proof.
assert (F : Zfloor (/ 2) = 0%Z) by (apply Zfloor_imp; simpl; lra).
assert (G : Zfloor (IZR 1 + / 2) = 1%Z) by (apply Zfloor_imp; simpl; lra).
assert (U : Zceil (IZR 1 + / 2) = 2%Z) by (apply Zceil_imp; simpl; lra).
unfold Znearest. rewrite F, G, U.
rewrite !Rcompare_Eq by (simpl; lra). simpl. lia.
Qed.
