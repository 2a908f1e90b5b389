(* docs/privacy/discrete_noise.md, "Comparisons": enclose_exp of natural.cpp, and docs/privacy/lattice.md, "Slow decisions".
   Integers stand for multiples of 2^-w; quotients are rounded down. *)
(* cpp/src/noise/natural.cpp:
     const std::size_t w = bits + 64 + halvings;
     const Natural x = (numerator << w) / (denominator << halvings);
     term = ((term * x) >> w) / Natural(i);
     if (term.is_zero()) break;
     Natural& side = i % 2 == 0 ? positive : negative;
     Natural power = positive - negative;
     for (std::size_t i = 0; i < halvings; ++i) power = (power * power) >> w;
     const Natural rounded = power >> (w - bits);
     return {rounded.is_zero() ? rounded : rounded - one, rounded + Natural(2)};
*)
From Coq Require Import Reals Lra Lia ZArith Psatz.
From Flocq Require Import Core.
Require Import Additions.
Open Scope R_scope.

Lemma down x : IZR (Zfloor x) <= x < IZR (Zfloor x) + 1.
Proof. split; [apply Zfloor_lb|apply Zfloor_ub]. Qed.

Section Series.
Variables (W : R) (x : R) (X : Z).
Hypothesis unit : 1 <= W.
Hypothesis range : 0 <= x <= / 2.
Hypothesis argument : 0 <= x - IZR X / W < / W.
Hypothesis natural : (0 <= X)%Z.

(* term = ((term * x) >> w) / i *)
Fixpoint term (i : nat) : R := match i with
  | O => W
  | S j => IZR (Zfloor (IZR (Zfloor (term j * IZR X / W)) / INR i)) end.
Definition exact (i : nat) : R := W * (x ^ i / INR (fact i)).

Lemma exact_step i : exact (S i) = exact i * x / INR (S i).
Proof.
unfold exact. rewrite fact_simpl, mult_INR. simpl pow.
pose proof (lt_O_fact i) as F. apply lt_INR in F. change (INR 0) with 0 in F.
assert (0 < INR (S i)) by (apply lt_0_INR; lia). field. lra.
Qed.

Lemma exact_below i : 0 <= exact i <= W.
Proof.
induction i as [|i IH]; [unfold exact; simpl; lra|]. rewrite exact_step.
assert (1 <= INR (S i)) by (rewrite S_INR; pose proof (pos_INR i); lra).
assert (0 <= exact i * x <= W) by nra.
split; [apply Rmult_le_pos; [lra|apply Rlt_le, Rinv_0_lt_compat; lra]|].
apply Rmult_le_reg_r with (INR (S i)); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. nra.
Qed.

Theorem terms i : 0 <= term i /\ 0 <= exact i - term i <= 3.
Proof.
induction i as [|i [P [E1 E2]]]; [unfold exact; simpl; lra|].
assert (A : 0 <= IZR X / W) by (apply Rmult_le_pos; [now apply IZR_le|apply Rlt_le, Rinv_0_lt_compat; lra]).
pose proof (exact_below i) as B.
set (a := IZR X / W) in *. set (d := exact i - term i) in *.
assert (T : term i = exact i - d) by (unfold d; ring).
assert (Inv : W * / W = 1) by (apply Rinv_r; lra).
(* the product, before it is rounded *)
assert (L : 0 <= exact i * x - term i * a <= 1 + 3 / 2).
{ rewrite T. split; [|].
  - assert ((exact i - d) * a <= exact i * x) by (apply Rmult_le_compat; lra). lra.
  - assert (exact i * (x - a) <= 1).
    { apply Rle_trans with (W * / W); [|lra]. apply Rmult_le_compat; lra. }
    assert (d * a <= 3 * / 2) by (apply Rmult_le_compat; lra). lra. }
change (term (S i)) with (IZR (Zfloor (IZR (Zfloor (term i * IZR X / W)) / INR (S i)))).
replace (term i * IZR X / W) with (term i * a) by (unfold a, Rdiv; ring).
assert (Q0 : 0 <= term i * a) by (apply Rmult_le_pos; lra).
pose proof (down (term i * a)) as D1. set (m := Zfloor (term i * a)) in *.
assert (M : (0 <= m)%Z) by (apply Zfloor_lub; simpl; exact Q0). apply IZR_le in M.
pose proof (down (IZR m / INR (S i))) as D2.
rewrite exact_step.
destruct i as [|i].
- (* the first quotient is by one, and exact *)
  change (INR 1) with 1 in *. assert (Z1 : Zfloor (IZR m / 1) = m) by (replace (IZR m / 1) with (IZR m) by field; apply Zfloor_IZR).
  rewrite Z1 in *. split; [lra|].
  replace (exact 0 * x / 1) with (exact 0 * x) by field. split; [lra|].
  assert (L0 : exact 0 * x - term 0 * a <= 1).
  { unfold exact. simpl. apply Rle_trans with (W * / W); [|lra].
    replace (W * (1 / 1) * x - W * a) with (W * (x - a)) by field. apply Rmult_le_compat_l; lra. }
  lra.
- assert (N : 2 <= INR (S (S i))) by (rewrite !S_INR; pose proof (pos_INR i); lra).
  set (n := INR (S (S i))) in *.
  assert (I : 0 < / n <= / 2) by (split; [apply Rinv_0_lt_compat; lra|apply Rinv_le_contravar; lra]).
  split.
  + apply (IZR_le 0). apply Zfloor_lub. simpl. apply Rmult_le_pos; lra.
  + assert (G : 0 <= exact (S i) * x - IZR m <= 7 / 2) by lra.
    assert (exact (S i) * x / n - IZR m / n = (exact (S i) * x - IZR m) * / n) by (unfold Rdiv; ring).
    assert (0 <= (exact (S i) * x - IZR m) * / n) by (apply Rmult_le_pos; lra).
    assert ((exact (S i) * x - IZR m) * / n <= 7 / 2 * / 2) by (apply Rmult_le_compat; lra).
    lra.
Qed.
(* The exact series, cut: what is left out is at most the first term that is. *)
Lemma cut n : Rabs (sum n (fun i => (-1) ^ i * exact i) - W * exp (- x)) <= exact n.
Proof.
set (U := fun i => x ^ i / INR (fact i)).
assert (F : forall i, 0 < INR (fact i)) by (intros i; apply lt_0_INR, lt_O_fact).
assert (Pos : forall i, 0 <= U i) by (intros i; unfold U; apply Rmult_le_pos; [apply pow_le; lra|apply Rlt_le, Rinv_0_lt_compat, F]).
assert (Falls : Un_decreasing U).
{ intros i. pose proof (exact_step i) as E. unfold exact in E. fold (U i) in E. fold (U (S i)) in E.
  assert (N : 1 <= INR (S i)) by (rewrite S_INR; pose proof (pos_INR i); lra).
  assert (G : U (S i) = U i * (x * / INR (S i))).
  { apply Rmult_eq_reg_l with W; [|lra]. rewrite E. unfold Rdiv. ring. }
  rewrite G. rewrite <- (Rmult_1_r (U i)) at 2. apply Rmult_le_compat_l; [apply Pos|].
  assert (0 < / INR (S i) <= 1) by (split; [apply Rinv_0_lt_compat; lra|rewrite <- Rinv_1; apply Rinv_le_contravar; lra]). nra. }
assert (Null : Un_cv U 0) by apply cv_speed_pow_fact.
assert (Lim : Un_cv (fun N => sum_f_R0 (tg_alt U) N) (exp (- x))).
{ intros eps He. destruct (exist_exp (- x)) as [l Hl] eqn:Q. unfold exp. rewrite Q. simpl. destruct (Hl eps He) as [N HN]. exists N. intros m Hm.
  specialize (HN m Hm). replace (sum_f_R0 (tg_alt U) m) with (sum_f_R0 (fun i => / INR (fact i) * (- x) ^ i) m); [exact HN|].
  apply sum_eq. intros i _. unfold tg_alt, U, Rdiv. replace (- x) with (-1 * x) by ring. rewrite Rpow_mult_distr. ring. }
assert (Same : forall m, sum (S m) (fun i => (-1) ^ i * exact i) = W * sum_f_R0 (tg_alt U) m).
{ induction m as [|m IH]; [simpl; unfold exact, tg_alt, U; simpl; field|].
  change (sum (S m) (fun i => (-1) ^ i * exact i) + (-1) ^ S m * exact (S m) = W * (sum_f_R0 (tg_alt U) m + tg_alt U (S m))).
  rewrite IH. unfold exact, tg_alt, U. ring. }
assert (Alt : forall m, tg_alt U (S (2 * m)) = - U (S (2 * m))%nat /\ tg_alt U (2 * S m) = U (2 * S m)%nat).
{ intros m. unfold tg_alt. rewrite pow_1_odd, pow_1_even. split; ring. }
assert (exact n = W * U n) as -> by reflexivity.
destruct n as [|n].
- simpl sum. unfold U. simpl. pose proof (exp_pos (- x)).
  assert (exp (- x) <= 1) by (rewrite <- exp_0; destruct (Req_dec x 0) as [->|Ne]; [rewrite Ropp_0; lra|apply Rlt_le, exp_increasing; lra]).
  rewrite Rabs_left1 by nra. nra.
- rewrite Same.
  replace (W * sum_f_R0 (tg_alt U) n - W * exp (- x)) with (W * (sum_f_R0 (tg_alt U) n - exp (- x))) by ring.
  rewrite Rabs_mult, (Rabs_pos_eq W) by lra. apply Rmult_le_compat_l; [lra|].
  destruct (Nat.Even_or_Odd n) as [[m ->]|[m ->]].
  + destruct (alternated_series_ineq U (exp (- x)) m Falls Null Lim) as [L H].
    change (sum_f_R0 (tg_alt U) (2 * m) + tg_alt U (S (2 * m)) <= exp (- x)) in L. rewrite (proj1 (Alt m)) in L. rewrite Rabs_pos_eq; lra.
  + destruct (alternated_series_ineq U (exp (- x)) m Falls Null Lim) as [L _].
    destruct (alternated_series_ineq U (exp (- x)) (S m) Falls Null Lim) as [_ H].
    replace (2 * m + 1)%nat with (S (2 * m)) by lia. replace (2 * S m)%nat with (S (S (2 * m))) in H by lia.
    change (exp (- x) <= sum_f_R0 (tg_alt U) (S (2 * m)) + tg_alt U (S (S (2 * m)))) in H.
    replace (S (S (2 * m))) with (2 * S m)%nat in * by lia. rewrite (proj2 (Alt m)) in H. rewrite Rabs_left1; lra.
Qed.

(* The loop ends at the first term that is zero; the first of all is exact. *)
Theorem series n : term (S n) = 0 -> Rabs (sum (S n) (fun i => (-1) ^ i * term i) - W * exp (- x)) <= 3 * INR (S n).
Proof.
intros Z.
assert (E : Rabs (sum (S n) (fun i => (-1) ^ i * term i) - sum (S n) (fun i => (-1) ^ i * exact i)) <= 3 * INR n).
{ clear Z. induction n as [|n IH]; [unfold exact; simpl; replace (0 + 1 * W - (0 + 1 * (W * (1 / 1)))) with 0 by field; rewrite Rabs_R0; lra|].
  rewrite (S_INR n).
  change (Rabs (sum (S n) (fun i => (-1) ^ i * term i) + (-1) ^ S n * term (S n) - (sum (S n) (fun i => (-1) ^ i * exact i) + (-1) ^ S n * exact (S n)))
    <= 3 * (INR n + 1)).
  replace (sum (S n) (fun i => (-1) ^ i * term i) + (-1) ^ S n * term (S n) - (sum (S n) (fun i => (-1) ^ i * exact i) + (-1) ^ S n * exact (S n)))
    with ((sum (S n) (fun i => (-1) ^ i * term i) - sum (S n) (fun i => (-1) ^ i * exact i)) + (-1) ^ S n * (term (S n) - exact (S n))) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. rewrite (Rabs_mult ((-1) ^ S n)), pow_1_abs, Rmult_1_l.
  destruct (terms (S n)) as [_ T]. assert (Rabs (term (S n) - exact (S n)) <= 3) by (apply Rabs_le; lra). lra. }
pose proof (cut (S n)) as C. destruct (terms (S n)) as [_ T]. rewrite (S_INR n).
replace (sum (S n) (fun i => (-1) ^ i * term i) - W * exp (- x)) with
  ((sum (S n) (fun i => (-1) ^ i * term i) - sum (S n) (fun i => (-1) ^ i * exact i)) + (sum (S n) (fun i => (-1) ^ i * exact i) - W * exp (- x))) by ring.
eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.

Lemma falls i : term (S i) <= term i.
Proof.
destruct (terms i) as [P _].
assert (J : 0 < / W <= 1) by (split; [apply Rinv_0_lt_compat; lra|rewrite <- Rinv_1; apply Rinv_le_contravar; lra]).
assert (A : 0 <= IZR X / W <= / 2) by (split; [apply Rmult_le_pos; [now apply IZR_le|lra]|lra]).
change (term (S i)) with (IZR (Zfloor (IZR (Zfloor (term i * IZR X / W)) / INR (S i)))).
pose proof (down (term i * IZR X / W)) as D1. set (m := Zfloor (term i * IZR X / W)) in *.
pose proof (down (IZR m / INR (S i))) as D2.
assert (M : (0 <= m)%Z) by (apply Zfloor_lub; simpl; unfold Rdiv in *; rewrite Rmult_assoc; apply Rmult_le_pos; lra). apply IZR_le in M.
assert (N : 1 <= INR (S i)) by (rewrite S_INR; pose proof (pos_INR i); lra).
assert (0 < / INR (S i) <= 1) by (split; [apply Rinv_0_lt_compat; lra|rewrite <- Rinv_1; apply Rinv_le_contravar; lra]).
assert (IZR m / INR (S i) <= IZR m * 1) by (unfold Rdiv; apply Rmult_le_compat_l; lra).
assert (term i * IZR X / W <= term i * 1) by (unfold Rdiv in *; rewrite Rmult_assoc; apply Rmult_le_compat_l; lra).
lra.
Qed.

(* What is squared is a natural number of at most one. *)
Theorem between n : 0 <= sum n (fun i => (-1) ^ i * term i) <= W.
Proof.
enough (A : forall m, 0 <= sum (2 * m) (fun i => (-1) ^ i * term i) <= W - term (2 * m) /\
  term (S (2 * m)) <= sum (S (2 * m)) (fun i => (-1) ^ i * term i) <= W).
{ destruct (Nat.Even_or_Odd n) as [[m ->]|[m ->]].
  - destruct (A m) as [B _]. destruct (terms (2 * m)) as [P _]. lra.
  - replace (2 * m + 1)%nat with (S (2 * m)) by lia. destruct (A m) as [_ B]. destruct (terms (S (2 * m))) as [P _]. lra. }
assert (Odd : forall m, sum (S (2 * m)) (fun i => (-1) ^ i * term i) = sum (2 * m) (fun i => (-1) ^ i * term i) + term (2 * m)).
{ intros m. change (sum (2 * m) (fun i => (-1) ^ i * term i) + (-1) ^ (2 * m) * term (2 * m) = sum (2 * m) (fun i => (-1) ^ i * term i) + term (2 * m)).
  rewrite pow_1_even. ring. }
assert (Even : forall m, sum (2 * S m) (fun i => (-1) ^ i * term i) = sum (S (2 * m)) (fun i => (-1) ^ i * term i) - term (S (2 * m))).
{ intros m. replace (2 * S m)%nat with (S (S (2 * m))) by lia.
  change (sum (S (2 * m)) (fun i => (-1) ^ i * term i) + (-1) ^ S (2 * m) * term (S (2 * m)) = sum (S (2 * m)) (fun i => (-1) ^ i * term i) - term (S (2 * m))).
  rewrite pow_1_odd. ring. }
induction m as [|m [_ B]].
- rewrite Odd. pose proof (falls 0) as F. simpl in *. lra.
- rewrite Odd, Even. pose proof (falls (2 * S m)) as F. pose proof (falls (S (2 * m))) as F'.
  replace (S (S (2 * m))) with (2 * S m)%nat in F' by lia. lra.
Qed.

(* It does so after at most w terms: the next one is below one unit. *)
Theorem ends w : W = 2 ^ w -> term (S w) = 0.
Proof.
intros HW.
assert (H : forall i, exact i <= W * (/ 2) ^ i).
{ induction i as [|i IH]; [unfold exact; simpl; lra|]. rewrite exact_step. pose proof (exact_below i).
  assert (1 <= INR (S i)) by (rewrite S_INR; pose proof (pos_INR i); lra).
  assert (0 < / INR (S i) <= 1) by (split; [apply Rinv_0_lt_compat; lra|rewrite <- Rinv_1; apply Rinv_le_contravar; lra]).
  assert (exact i * x <= W * (/ 2) ^ i * / 2) by (apply Rmult_le_compat; lra).
  assert (0 <= exact i * x) by (apply Rmult_le_pos; lra).
  assert (exact i * x * / INR (S i) <= exact i * x * 1) by (apply Rmult_le_compat_l; lra).
  simpl pow. unfold Rdiv. lra. }
destruct (terms (S w)) as [P T]. specialize (H (S w)).
assert (L : W * (/ 2) ^ S w = / 2).
{ rewrite HW. simpl pow. rewrite <- Rmult_assoc, (Rmult_comm (2 ^ w)), Rmult_assoc, <- Rpow_mult_distr. replace (2 * / 2) with 1 by field. rewrite pow1. lra. }
change (term (S w)) with (IZR (Zfloor (IZR (Zfloor (term w * IZR X / W)) / INR (S w)))) in *.
set (z := Zfloor (IZR (Zfloor (term w * IZR X / W)) / INR (S w))) in *.
assert (A : (z < 1)%Z) by (apply lt_IZR; simpl; lra).
assert (B : (0 <= z)%Z) by (apply le_IZR; simpl; exact P).
f_equal. lia.
Qed.
End Series.

(* power = (power * power) >> w, halvings times: an error e becomes at most 2 e + 1. *)
Theorem squaring (W y P e : R) : 1 <= W -> 0 <= y <= 1 -> 0 <= P <= W -> 0 <= e -> Rabs (P - W * y) <= e ->
  let next := IZR (Zfloor (P * P / W)) in 0 <= next <= W /\ Rabs (next - W * (y * y)) <= 2 * e + 1.
Proof.
intros HW Hy HP He H next. pose proof (down (P * P / W)) as D. fold next in D.
assert (Inv : W * / W = 1) by (apply Rinv_r; lra).
assert (J : 0 < / W) by (apply Rinv_0_lt_compat; lra).
assert (Q : 0 <= P * / W <= 1) by (split; [apply Rmult_le_pos; lra|]; rewrite <- Inv; apply Rmult_le_compat_r; lra).
assert (Z : 0 <= next).
{ apply (IZR_le 0). apply Zfloor_lub. simpl. unfold Rdiv. repeat apply Rmult_le_pos; lra. }
split.
- split; [exact Z|]. apply Rle_trans with (P * P / W); [lra|]. unfold Rdiv. rewrite Rmult_assoc.
  apply Rle_trans with (P * 1); [apply Rmult_le_compat_l; lra|lra].
- assert (K : P * P / W - W * (y * y) = (P - W * y) * (y + P * / W)) by (unfold Rdiv; field; lra).
  assert (L : Rabs ((P - W * y) * (y + P * / W)) <= e * 2).
  { rewrite Rabs_mult. apply Rmult_le_compat; try apply Rabs_pos; [exact H|]. rewrite Rabs_pos_eq; lra. }
  rewrite <- K in L. apply Rabs_le_inv in L. apply Rabs_le. lra.
Qed.

(* So t squarings of what is off by at most 3 w + 4 leave it off by less than 2^t (3 w + 5). *)
Fixpoint power (W P : R) (t : nat) : R := match t with O => P | S s => IZR (Zfloor (power W P s * power W P s / W)) end.

Theorem squarings (W y P e : R) (t : nat) : 1 <= W -> 0 <= y <= 1 -> 0 <= P <= W -> 0 <= e -> Rabs (P - W * y) <= e ->
  Rabs (power W P t - W * y ^ (2 ^ t)) <= 2 ^ t * (e + 1) - 1.
Proof.
intros HW Hy HP He H.
enough (A : 0 <= power W P t <= W /\ Rabs (power W P t - W * y ^ (2 ^ t)) <= 2 ^ t * (e + 1) - 1) by apply A.
induction t as [|t [R E]]; [simpl; rewrite Rmult_1_r; lra|].
assert (1 <= 2 ^ t) by (clear; induction t; simpl; lra).
destruct (squaring W (y ^ (2 ^ t)) (power W P t) (2 ^ t * (e + 1) - 1)) as [R' E']; try assumption; [|nra|].
- split; [apply pow_le; lra|]. rewrite <- (pow1 (2 ^ t)). apply pow_incr. lra.
- split; [exact R'|]. change (power W P (S t)) with (IZR (Zfloor (power W P t * power W P t / W))).
  replace (y ^ (2 ^ S t)) with (y ^ (2 ^ t) * y ^ (2 ^ t)).
  + simpl pow. lra.
  + rewrite <- pow_add. f_equal. simpl. lia.
Qed.

(* The integers around it: P off by less than a unit V of the last bit that is asked for. *)
Theorem enclosed (V y P : R) : 0 < V -> Rabs (P - V * y) <= V ->
  let rounded := IZR (Zfloor (P / V)) in rounded - 1 <= y <= rounded + 2.
Proof.
intros HV H rounded. pose proof (down (P / V)) as D. fold rounded in D. apply Rabs_le_inv in H.
assert (J : 0 < / V) by (apply Rinv_0_lt_compat; lra).
assert (K : -1 <= P / V - y <= 1).
{ replace (P / V - y) with ((P - V * y) * / V) by (unfold Rdiv; field; lra).
  assert (I : V * / V = 1) by (apply Rinv_r; lra). split; nra. }
lra.
Qed.

(* All of enclose_exp but for the shift at its end: x times 2^t is its argument, P the sum of at most w + 1 terms. *)
Theorem exponential w t x X : let W := 2 ^ w in 0 <= x <= / 2 -> 0 <= x - IZR X / W < / W -> (0 <= X)%Z ->
  let P := sum (S w) (fun i => (-1) ^ i * term W X i) in
  Rabs (power W P t - W * exp (- (x * 2 ^ t))) <= 2 ^ t * (3 * INR w + 4) - 1.
Proof.
intros W Hx HX N P.
assert (HW : 1 <= W) by (unfold W; clear; induction w; simpl; lra).
pose proof (series W x X HW Hx HX N w (ends W x X HW Hx HX N w eq_refl)) as E. fold P in E.
pose proof (between W x X HW Hx HX N (S w)) as B. fold P in B.
assert (Y : 0 <= exp (- x) <= 1).
{ split; [apply Rlt_le, exp_pos|]. rewrite <- exp_0. destruct (Req_dec x 0) as [->|Ne]; [rewrite Ropp_0; lra|apply Rlt_le, exp_increasing; lra]. }
pose proof (pos_INR w). rewrite S_INR in E.
assert (He : 0 <= 3 * (INR w + 1)) by lra.
pose proof (squarings W (exp (- x)) P (3 * (INR w + 1)) t HW Y B He E) as S.
assert (Same : forall n, exp (- x) ^ n = exp (- (x * INR n))).
{ induction n as [|n IH]; [simpl; rewrite Rmult_0_r, Ropp_0, exp_0; reflexivity|].
  rewrite S_INR. simpl pow. rewrite IH, <- exp_plus. f_equal. ring. }
rewrite Same, pow_INR in S. simpl (INR 2) in S. replace (3 * INR w + 4) with (3 * (INR w + 1) + 1) by ring. exact S.
Qed.
