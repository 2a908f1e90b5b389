(* docs/privacy/continual_sum.md, "Rounding of the sum", and docs/privacy/lattice.md, "Leaves". u = 2^-53. *)
(* cpp/include/dpoco/core/compensated.hpp:
     const V y = x + rest;
     const V total = sum + y;
     const V added = total - sum;
     rest = (sum - (total - added)) + (y - added);
*)
From Coq Require Import Reals Lra Lia Arith Psatz.
Require Import Additions.
Open Scope R_scope.

Section Compensated. (* y_k = x_k + r_(k-1) rounded, s_k + r_k = s_(k-1) + y_k exactly (Knuth), |r_k| <= u |s_k|. *)
Variables (u : R) (x y s r : nat -> R) (n : nat).
Hypothesis small : 0 <= u <= / 16 /\ INR n * u <= / 4.
Hypothesis start : s 0%nat = 0 /\ r 0%nat = 0.
Hypothesis two_sum : forall k, s (S k) + r (S k) = s k + y k.
Hypothesis rest : forall k, Rabs (r k) <= u * Rabs (s k).
Hypothesis rounded : forall k, Rabs (y k - (x k + r k)) <= u * (Rabs (x k) + Rabs (r k)).

Let X m := sum m (fun k => Rabs (x k)).
Let error m := s m + r m - sum m x.

Lemma error_step m : Rabs (error (S m)) <= Rabs (error m) + u * (Rabs (x m) + Rabs (r m)).
Proof.
unfold error. rewrite two_sum. simpl sum.
replace (s m + y m - (sum m x + x m)) with ((s m + r m - sum m x) + (y m - (x m + r m))) by ring.
eapply Rle_trans; [apply Rabs_triang|]. pose proof (rounded m). lra.
Qed.

Lemma X_grows m : X m <= X (S m).
Proof. unfold X. simpl. pose proof (Rabs_pos (x m)). lra. Qed.
Lemma X_pos m : 0 <= X m.
Proof. apply sum_nonneg. intros. apply Rabs_pos. Qed.
Lemma sum_below m : Rabs (sum m x) <= X m.
Proof. induction m as [|m IH]; unfold X in *; simpl; [rewrite Rabs_R0; lra|]. eapply Rle_trans; [apply Rabs_triang|]. lra. Qed.

(* Errors so far and the size of the sum, together. *)
Lemma both m : (m <= n)%nat ->
  Rabs (error m) <= u * X m + INR m * (u * u) * (1 + 3 * u) * X m /\ Rabs (s m) <= (1 + 3 * u) * X m.
Proof.
destruct small as [U N]. destruct start as [S0 R0].
assert (B : forall m, (m <= n)%nat -> 0 <= INR m * u <= / 4).
{ intros k L. apply le_INR in L. pose proof (pos_INR k). split; [apply Rmult_le_pos; lra|]. nra. }
induction m as [|m IH]; intros L.
- unfold error, X. simpl. rewrite S0, R0. replace (0 + 0 - 0) with 0 by ring. rewrite Rabs_R0. lra.
- destruct (IH ltac:(lia)) as [E M]. clear IH.
  pose proof (X_grows m) as G. pose proof (X_pos m) as P. pose proof (error_step m) as T. pose proof (rest m) as Q.
  pose proof (B (S m) L) as K. rewrite S_INR in *. pose proof (pos_INR m) as I.
  assert (D : X (S m) = X m + Rabs (x m)) by reflexivity.
  assert (W : 0 <= u * u) by nra.
  assert (F : Rabs (error (S m)) <= u * X (S m) + (INR m + 1) * (u * u) * (1 + 3 * u) * X (S m)).
  { assert (u * Rabs (r m) <= u * u * ((1 + 3 * u) * X m)).
    { assert (u * Rabs (r m) <= u * (u * Rabs (s m))) by (apply Rmult_le_compat_l; lra).
      assert (u * u * Rabs (s m) <= u * u * ((1 + 3 * u) * X m)) by (apply Rmult_le_compat_l; lra). lra. }
    assert (0 <= (INR m + 1) * (u * u) * (1 + 3 * u)) by (repeat apply Rmult_le_pos; lra).
    assert ((INR m + 1) * (u * u) * (1 + 3 * u) * X m <= (INR m + 1) * (u * u) * (1 + 3 * u) * X (S m)) by (apply Rmult_le_compat_l; lra).
    rewrite D in *. nra. }
  split; [exact F|].
  (* |s| (1 - u) <= |sum x| + |error|, and the error is at most u X (1 + (1/4) (1 + 3 u)). *)
  pose proof (sum_below (S m)) as Y. pose proof (rest (S m)) as Z. pose proof (X_pos (S m)) as P'.
  assert (Hs : Rabs (s (S m)) <= Rabs (sum (S m) x) + Rabs (error (S m)) + Rabs (r (S m))).
  { replace (s (S m)) with (sum (S m) x + error (S m) + - r (S m)) at 1 by (unfold error; ring).
    eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_Ropp. apply Rplus_le_compat_r. apply Rabs_triang. }
  assert (C : (INR m + 1) * (u * u) * (1 + 3 * u) * X (S m) <= / 4 * u * (1 + 3 * u) * X (S m)).
  { apply Rmult_le_compat_r; [exact P'|]. apply Rmult_le_compat_r; [lra|]. nra. }
  assert (J : (1 - u) * Rabs (s (S m)) <= (1 + u + / 4 * u * (1 + 3 * u)) * X (S m)) by lra.
  assert (O : 1 + u + / 4 * u * (1 + 3 * u) <= (1 - u) * (1 + 3 * u)) by nra.
  assert ((1 + u + / 4 * u * (1 + 3 * u)) * X (S m) <= (1 - u) * (1 + 3 * u) * X (S m)) by (apply Rmult_le_compat_r; lra).
  apply Rmult_le_reg_l with (1 - u); lra.
Qed.

Theorem compensated : Rabs (s n - sum n x) <= 2 * u * (1 + (INR n + 4) * u) * X n.
Proof.
destruct small as [U N]. destruct (both n (le_n n)) as [E M].
pose proof (rest n) as Q. pose proof (X_pos n) as P. pose proof (pos_INR n) as I.
assert (H : Rabs (s n - sum n x) <= Rabs (error n) + Rabs (r n)).
{ replace (s n - sum n x) with (error n + - r n) by (unfold error; ring). eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_Ropp. lra. }
assert (u * Rabs (s n) <= u * ((1 + 3 * u) * X n)) by (apply Rmult_le_compat_l; lra).
assert (K : INR n * (u * u) * (1 + 3 * u) <= 2 * (INR n * (u * u))).
{ assert (0 <= INR n * (u * u)) by (apply Rmult_le_pos; nra). nra. }
assert (INR n * (u * u) * (1 + 3 * u) * X n <= 2 * (INR n * (u * u)) * X n) by (apply Rmult_le_compat_r; lra).
assert (0 <= u * u * X n) by (apply Rmult_le_pos; nra). nra.
Qed.
End Compensated.

(* Plain additions of m leaves of norm at most C, the first of them to zero; e j is the norm of the error after j. *)
Theorem leaf (u C : R) (e : nat -> R) (m : nat) : 0 <= C -> 0 <= u -> 4 * INR m ^ 3 * u <= 15 ->
  e 1%nat = 0 -> (forall j, (1 <= j)%nat -> 0 <= e j /\ e (S j) <= e j + u * (INR (S j) * C + e j)) ->
  (1 <= m)%nat -> e m <= u * (INR m * (INR m + 1) / 2) * C.
Proof.
intros HC U K E1 step.
assert (G : forall j, (1 <= j <= m)%nat -> e j <= u * (INR j * (INR j + 1) / 2 - 1 + 4 / 15 * (INR j ^ 3) * u) * C).
{ induction j as [|j IH]; intros L; [lia|].
  destruct j as [|j]; [rewrite E1; simpl; apply Rmult_le_pos; [|lra]; nra|].
  specialize (IH ltac:(lia)). destruct (step (S j) ltac:(lia)) as [P T]. eapply Rle_trans; [exact T|].
  assert (M : INR (S j) ^ 3 <= INR m ^ 3) by (apply pow_incr; split; [apply pos_INR|apply le_INR; lia]).
  rewrite (S_INR (S j)) in *. assert (1 <= INR (S j)) by (rewrite S_INR; pose proof (pos_INR j); lra).
  set (a := INR (S j)) in *.
  assert (Q : e (S j) <= u * (a * (a + 1) / 2) * C).
  { eapply Rle_trans; [exact IH|]. apply Rmult_le_compat_r; [lra|]. apply Rmult_le_compat_l; [lra|].
    assert (a ^ 3 * u <= INR m ^ 3 * u) by (apply Rmult_le_compat_r; lra). lra. }
  assert (u * e (S j) <= u * (u * (a * (a + 1) / 2) * C)) by (apply Rmult_le_compat_l; lra).
  assert (S : 0 <= u * u * C) by (apply Rmult_le_pos; nra).
  assert (a * (a + 1) / 2 <= 4 / 15 * ((a + 1) ^ 3 - a ^ 3)) by nra.
  assert (u * u * C * (a * (a + 1) / 2) <= u * u * C * (4 / 15 * ((a + 1) ^ 3 - a ^ 3))) by (apply Rmult_le_compat_l; lra).
  nra. }
intros L. eapply Rle_trans; [apply G; lia|]. apply Rmult_le_compat_r; [lra|]. apply Rmult_le_compat_l; [lra|]. lra.
Qed.
