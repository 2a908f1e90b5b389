(* docs/privacy/lattice.md, "Slow decisions": the series of enclose_versine, in units of 2^-w, W = 2^w; quotients are rounded down. *)
(* cpp/src/noise/rounded_gaussian.cpp:
     const std::size_t w = bits + kGuard;
     const Natural y = (pi * v) >> places;
     const Natural square = (y * y) >> w;
     Natural term = square >> 1;
     Natural& side = k % 2 == 1 ? positive : negative;
     term = ((term * square) >> w) / Natural((2 * k + 1) * (2 * k + 2));
     return {rounded.is_zero() ? rounded : rounded - one, rounded + Natural(2)};
*)
From Coq Require Import Reals Lra Lia ZArith Psatz.
From Flocq Require Import Core.
From Interval Require Import Tactic.
Require Import Additions.
Open Scope R_scope.

Lemma down x : IZR (Zfloor x) <= x < IZR (Zfloor x) + 1.
Proof. split; [apply Zfloor_lb|apply Zfloor_ub]. Qed.

(* Y is below W y by at most r and a unit, S its square. *)
Theorem square W y Y r : 1 <= W -> 0 <= y <= 1.5708 -> 0 <= Y <= 1.5708 * W -> Rabs (Y - W * y) <= r ->
  Rabs (IZR (Zfloor (Y * Y / W)) - W * (y * y)) <= 3.1416 * r + 1.
Proof.
intros HW Hy HY H. pose proof (down (Y * Y / W)) as D.
assert (Inv : W * / W = 1) by (apply Rinv_r; lra). assert (J : 0 < / W) by (apply Rinv_0_lt_compat; lra).
assert (Q : 0 <= Y * / W <= 1.5708) by (split; [apply Rmult_le_pos; lra|]; replace 1.5708 with (1.5708 * W * / W) by (rewrite Rmult_assoc, Inv; ring); apply Rmult_le_compat_r; lra).
assert (K : Y * Y / W - W * (y * y) = (Y - W * y) * (Y * / W + y)) by (unfold Rdiv; field; lra).
assert (L : Rabs ((Y - W * y) * (Y * / W + y)) <= r * 3.1416).
{ rewrite Rabs_mult. apply Rmult_le_compat; try apply Rabs_pos; [exact H|]. rewrite Rabs_pos_eq; lra. }
rewrite <- K in L. apply Rabs_le_inv in L. apply Rabs_le. lra.
Qed.

Section Series.
Variables (W y q : R) (S : Z).
Hypothesis unit : 1 <= W.
Hypothesis range : 0 <= y <= 1.5708.
Hypothesis natural : (0 <= S)%Z.
Hypothesis close : Rabs (IZR S - W * (y * y)) <= q.
Hypothesis small : q <= 0.02 * W.

Fixpoint term (k : nat) : R := match k with
  | O => IZR (Zfloor (IZR S / 2))
  | Datatypes.S j => IZR (Zfloor (IZR (Zfloor (term j * IZR S / W)) / INR ((2 * k + 1) * (2 * k + 2)))) end.
Definition exact (k : nat) : R := W * (y ^ (2 * (k + 1)) / INR (fact (2 * (k + 1)))).

Lemma exact_step k : exact (Datatypes.S k) = exact k * (y * y) / INR ((2 * Datatypes.S k + 1) * (2 * Datatypes.S k + 2)).
Proof.
unfold exact. replace (2 * (Datatypes.S k + 1))%nat with (Datatypes.S (Datatypes.S (2 * (k + 1)))) by lia.
rewrite !fact_simpl, !mult_INR. set (n := (2 * (k + 1))%nat).
replace (2 * Datatypes.S k + 1)%nat with (Datatypes.S n) by (unfold n; lia). replace (2 * Datatypes.S k + 2)%nat with (Datatypes.S (Datatypes.S n)) by (unfold n; lia).
pose proof (lt_0_INR _ (lt_O_fact n)). pose proof (lt_0_INR (Datatypes.S n) ltac:(lia)). pose proof (lt_0_INR (Datatypes.S (Datatypes.S n)) ltac:(lia)).
change (y ^ Datatypes.S (Datatypes.S n)) with (y * (y * y ^ n)). field. lra.
Qed.

Lemma divisor k : 12 <= INR ((2 * Datatypes.S k + 1) * (2 * Datatypes.S k + 2)).
Proof. replace 12 with (INR 12) by (simpl; lra). apply le_INR. nia. Qed.

Lemma exact_below k : 0 <= exact k <= 1.24 * W * 0.42 ^ k.
Proof.
assert (Y : 0 <= y * y <= 2.4675) by nra.
induction k as [|k IH]; [unfold exact; simpl; split; [apply Rmult_le_pos; nra|nra]|].
rewrite exact_step. pose proof (divisor k) as D. set (m := INR _) in *.
assert (I : 0 < / m <= / 12) by (split; [apply Rinv_0_lt_compat; lra|apply Rinv_le_contravar; lra]).
assert (P : 0 <= 0.42 ^ k) by (apply pow_le; lra).
assert (0 <= exact k * (y * y) <= 1.24 * W * 0.42 ^ k * 2.4675) by (split; [apply Rmult_le_pos; lra|apply Rmult_le_compat; lra]).
assert (Q : 0 <= 1.24 * W * 0.42 ^ k) by (apply Rmult_le_pos; [lra|exact P]).
split; [apply Rmult_le_pos; lra|]. apply Rle_trans with (1.24 * W * 0.42 ^ k * 2.4675 * / 12); [apply Rmult_le_compat; lra|]. simpl pow. lra.
Qed.

Theorem terms k : 0 <= term k /\ Rabs (term k - exact k) <= q / 2 * 0.42 ^ k + 2.
Proof.
pose proof (Rabs_pos (IZR S - W * (y * y))) as Q0. apply Rabs_le_inv in close. assert (NS := IZR_le _ _ natural). simpl in NS.
assert (Y : 0 <= y * y <= 2.4675) by nra.
assert (SW : IZR S <= 2.4875 * W) by (assert (W * (y * y) <= W * 2.4675) by (apply Rmult_le_compat_l; lra); lra).
assert (Inv : W * / W = 1) by (apply Rinv_r; lra). assert (J : 0 < / W) by (apply Rinv_0_lt_compat; lra).
induction k as [|k [P E]].
- simpl term. pose proof (down (IZR S / 2)) as D. split; [apply (IZR_le 0), Zfloor_lub; simpl; lra|].
  assert (X : exact 0 = W * (y * y) / 2) by (unfold exact; simpl; field). rewrite X. simpl pow. apply Rabs_le. lra.
- change (term (Datatypes.S k)) with (IZR (Zfloor (IZR (Zfloor (term k * IZR S / W)) / INR ((2 * Datatypes.S k + 1) * (2 * Datatypes.S k + 2))))).
  rewrite exact_step. pose proof (divisor k) as N. set (m := INR _) in *.
  assert (I : 0 < / m <= / 12) by (split; [apply Rinv_0_lt_compat; lra|apply Rinv_le_contravar; lra]).
  pose proof (down (term k * IZR S / W)) as D1. set (z := Zfloor (term k * IZR S / W)) in *.
  pose proof (down (IZR z / m)) as D2. pose proof (exact_below k) as B.
  set (a := IZR S * / W). assert (A : 0 <= a <= 2.5) by (unfold a; split; [apply Rmult_le_pos; lra|]; apply Rle_trans with (2.4875 * W * / W); [apply Rmult_le_compat_r; lra|rewrite Rmult_assoc, Inv; lra]).
  replace (term k * IZR S / W) with (term k * a) in D1 by (unfold a, Rdiv; ring).
  assert (Z : (0 <= z)%Z) by (apply Zfloor_lub; simpl; unfold Rdiv; rewrite Rmult_assoc; fold a; apply Rmult_le_pos; lra). apply IZR_le in Z. simpl in Z.
  split; [apply (IZR_le 0), Zfloor_lub; simpl; apply Rmult_le_pos; lra|].
  set (p := 0.42 ^ k) in *. assert (HP : 0 <= p) by (apply pow_le; lra).
  assert (L : Rabs (term k * a - exact k * (y * y)) <= 2.5 * (q / 2 * p + 2) + 1.24 * p * q).
  { replace (term k * a - exact k * (y * y)) with ((term k - exact k) * a + exact k * (a - y * y)) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_mult. apply Rplus_le_compat.
    - rewrite (Rabs_pos_eq a), Rmult_comm by lra. apply Rmult_le_compat; try apply Rabs_pos; lra.
    - rewrite (Rabs_pos_eq (exact k)) by lra.
      assert (Rabs (a - y * y) <= q * / W).
      { replace (a - y * y) with ((IZR S - W * (y * y)) * / W) by (unfold a; field; lra). rewrite Rabs_mult, (Rabs_pos_eq (/ W)) by lra. apply Rmult_le_compat_r; [lra|]. apply Rabs_le. lra. }
      apply Rle_trans with (1.24 * W * p * (q * / W)); [apply Rmult_le_compat; try apply Rabs_pos; lra|].
      replace (1.24 * W * p * (q * / W)) with (1.24 * p * q * (W * / W)) by ring. rewrite Inv. lra. }
  apply Rabs_le_inv in L.
  assert (M : Rabs (IZR z / m - exact k * (y * y) / m) <= (2.5 * (q / 2 * p + 2) + 1.24 * p * q + 1) * / 12).
  { replace (IZR z / m - exact k * (y * y) / m) with ((IZR z - exact k * (y * y)) * / m) by (unfold Rdiv; ring).
    rewrite Rabs_mult, (Rabs_pos_eq (/ m)) by lra. apply Rmult_le_compat; try apply Rabs_pos; try lra. apply Rabs_le. lra. }
  apply Rabs_le_inv in M. assert (0 <= p * q) by (apply Rmult_le_pos; lra). simpl pow. fold p. apply Rabs_le.
  lra.
Qed.

(* The exact series, cut. *)
Lemma cut n : Rabs (sum n (fun k => (-1) ^ k * exact k) - W * (1 - cos y)) <= exact n.
Proof.
assert (Same : forall m, sum m (fun k => (-1) ^ k * exact k) = W * (1 - sum_f_R0 (cos_term y) m)).
{ induction m as [|m IH]; [simpl; unfold cos_term; simpl; field|].
  assert (T : cos_term y (Datatypes.S m) = - ((-1) ^ m * (y ^ (2 * (m + 1)) / INR (fact (2 * (m + 1)))))).
  { unfold cos_term. replace (Datatypes.S m) with (m + 1)%nat by lia. rewrite (pow_add (-1) m 1), pow_1. unfold Rdiv. ring. }
  change (sum_f_R0 (cos_term y) (Datatypes.S m)) with (sum_f_R0 (cos_term y) m + cos_term y (Datatypes.S m)).
  simpl sum. rewrite IH, T. unfold exact. ring. }
rewrite Same. replace (W * (1 - sum_f_R0 (cos_term y) n) - W * (1 - cos y)) with (W * (cos y - sum_f_R0 (cos_term y) n)) by ring.
rewrite Rabs_mult, (Rabs_pos_eq W) by lra. unfold exact. apply Rmult_le_compat_l; [lra|].
assert (Bound : forall m, sum_f_R0 (cos_term y) (2 * m + 1) <= cos y <= sum_f_R0 (cos_term y) (2 * (m + 1))).
{ intros m. destruct (pre_cos_bound y m) as [L H]; [lra|lra|]. split; [exact L|exact H]. }
assert (Even : forall m, cos y <= sum_f_R0 (cos_term y) (2 * m)).
{ intros [|m]; [simpl; unfold cos_term; simpl; pose proof (COS_bound y); lra|]. replace (Datatypes.S m) with (m + 1)%nat by lia. apply Bound. }
destruct (Nat.Even_or_Odd n) as [[m ->]|[m ->]].
- destruct (Bound m) as [L _]. specialize (Even m). replace (2 * m + 1)%nat with (Datatypes.S (2 * m)) in * by lia.
  change (sum_f_R0 (cos_term y) (2 * m) + cos_term y (Datatypes.S (2 * m)) <= cos y) in L. unfold cos_term in L at 2. rewrite pow_1_odd in L.
  rewrite Rabs_left1 by lra. lra.
- destruct (Bound m) as [L _]. specialize (Even (m + 1)%nat). replace (2 * (m + 1))%nat with (Datatypes.S (2 * m + 1)) in Even by lia.
  change (cos y <= sum_f_R0 (cos_term y) (2 * m + 1) + cos_term y (Datatypes.S (2 * m + 1))) in Even. unfold cos_term in Even at 2.
  replace (Datatypes.S (2 * m + 1)) with (2 * (m + 1))%nat in Even by lia. rewrite pow_1_even in Even.
  replace (2 * m + 1 + 1)%nat with (2 * (m + 1))%nat by lia. rewrite Rabs_pos_eq by lra. lra.
Qed.

(* What the loop adds up, until a term is zero. *)
Theorem versine n : term n = 0 -> Rabs (sum n (fun k => (-1) ^ k * term k) - W * (1 - cos y)) <= 2 * q + 2 * INR (Datatypes.S n).
Proof.
intros Z. assert (Q : 0 <= q) by (pose proof (Rabs_pos (IZR S - W * (y * y))); lra).
assert (Pow : forall k, 0 <= 0.42 ^ k <= 1).
{ intros k. split; [apply pow_le; lra|]. apply Rle_trans with (1 ^ k); [apply pow_incr; lra|rewrite pow1; lra]. }
assert (E : forall m, Rabs (sum m (fun k => (-1) ^ k * term k) - sum m (fun k => (-1) ^ k * exact k)) <= q * (1 - 0.42 ^ m) + 2 * INR m).
{ induction m as [|m IH]; [simpl; rewrite Rminus_0_r, Rabs_R0; lra|].
  simpl sum. rewrite S_INR. destruct (terms m) as [_ T].
  replace (sum m (fun k => (-1) ^ k * term k) + (-1) ^ m * term m - (sum m (fun k => (-1) ^ k * exact k) + (-1) ^ m * exact m))
    with ((sum m (fun k => (-1) ^ k * term k) - sum m (fun k => (-1) ^ k * exact k)) + (-1) ^ m * (term m - exact m)) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. rewrite (Rabs_mult ((-1) ^ m)), pow_1_abs, Rmult_1_l.
  assert (0 <= q * 0.42 ^ m) by (apply Rmult_le_pos; [lra|apply Pow]). simpl pow. lra. }
pose proof (cut n) as C. destruct (terms n) as [_ T]. rewrite Z, Rminus_0_l, Rabs_Ropp in T. pose proof (exact_below n) as B. rewrite Rabs_pos_eq in T by lra.
specialize (E n). rewrite S_INR. pose proof (Pow n). assert (q * 0.42 ^ n <= q) by nra. assert (0 <= q * 0.42 ^ n) by (apply Rmult_le_pos; lra).
replace (sum n (fun k => (-1) ^ k * term k) - W * (1 - cos y)) with
  ((sum n (fun k => (-1) ^ k * term k) - sum n (fun k => (-1) ^ k * exact k)) + (sum n (fun k => (-1) ^ k * exact k) - W * (1 - cos y))) by ring.
eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.
End Series.
