(* docs/privacy/continual_sum.md: norms of columns. *)
From Coq Require Import Reals Lra Lia Arith Psatz.
Require Import Additions.
Open Scope R_scope.

Definition geo (x : R) (m : nat) : R := (1 - (1 - x) ^ m) / x.

Section Buffered. (* c 0 = 1 and c i = sum_j omega_j (1 - s_j)^(i - 1). *)
Variables (k : nat) (omega s : nat -> R).
Hypothesis rates : forall j, 0 < s j < 1.

Definition coefficient (i : nat) : R := match i with O => 1 | S t => sum k (fun j => omega j * (1 - s j) ^ t) end.

Theorem column_norm n : sum (S n) (fun i => coefficient i * coefficient i) =
  1 + sum k (fun i => sum k (fun j => omega i * omega j * geo (s i + s j - s i * s j) n)).
Proof.
rewrite sum_first. simpl coefficient. rewrite Rmult_1_l. f_equal.
rewrite (sum_ext n _ (fun t => sum k (fun i => sum k (fun j => omega i * omega j * ((1 - s i) * (1 - s j)) ^ t)))).
- rewrite sum_swap. apply sum_ext. intros i _. rewrite sum_swap. apply sum_ext. intros j _.
  rewrite sum_scale. f_equal. pose proof (rates i). pose proof (rates j).
  assert (0 < (1 - s i) * (1 - s j) < 1) by nra.
  rewrite sum_powers by lra. unfold geo.
  replace (1 - (s i + s j - s i * s j)) with ((1 - s i) * (1 - s j)) by ring.
  replace (1 - (1 - s i) * (1 - s j)) with (s i + s j - s i * s j) by ring. reflexivity.
- intros t _. rewrite square_of_sum. apply sum_ext. intros i _. apply sum_ext. intros j _. rewrite Rpow_mult_distr. ring.
Qed.

(* How much of an error a buffer carries on. *)
Theorem carried j n : sum n (fun i => (1 - s j) ^ i) <= / s j /\ sum n (fun i => (1 - s j) ^ i) <= INR n.
Proof.
pose proof (rates j) as S. assert (P : forall i, 0 <= (1 - s j) ^ i <= 1).
{ intros i. split; [apply pow_le; lra|]. apply Rle_trans with (1 ^ i); [apply pow_incr; lra|rewrite pow1; lra]. }
split.
- rewrite sum_powers by lra. replace (1 - (1 - s j)) with (s j) by ring. destruct (P n) as [L H].
  assert (0 < / s j) by (apply Rinv_0_lt_compat; lra). unfold Rdiv.
  assert ((1 - (1 - s j) ^ n) * / s j <= 1 * / s j) by (apply Rmult_le_compat_r; lra). lra.
- induction n as [|m IH]; [simpl; lra|]. rewrite S_INR. simpl sum. pose proof (P m). lra.
Qed.

(* What Participation.v asks of coefficients. *)
Hypothesis weights : forall j, 0 <= omega j.
Hypothesis total : sum k omega <= 1.

Theorem buffers_fall i : 0 <= coefficient (S i) <= coefficient i.
Proof.
assert (P : forall t j, 0 <= (1 - s j) ^ t) by (intros t j; apply pow_le; pose proof (rates j); lra).
split.
- apply sum_nonneg. intros j _. apply Rmult_le_pos; [apply weights|apply P].
- destruct i as [|t]; simpl.
  + apply Rle_trans with (sum k omega); [|exact total]. apply sum_le. intros j _. lra.
  + apply sum_le. intros j _. apply Rmult_le_compat_l; [apply weights|].
    pose proof (rates j). pose proof (P t j). nra.
Qed.
End Buffered.

(* Square root of the sum: f_k = binom(2k, k)/4^k; its inverse (1 - x)^(1/2) has the coefficients f_k - f_(k - 1). *)
Fixpoint root (k : nat) : R := match k with O => 1 | S i => root i * (1 - / (2 * INR (S i))) end.

Lemma root_falls k : 0 < root (S k) <= root k.
Proof.
assert (H : forall i, 0 < 1 - / (2 * INR (S i)) <= 1).
{ intros i. assert (1 <= INR (S i)) by (rewrite S_INR; pose proof (pos_INR i); lra).
  assert (0 < / (2 * INR (S i)) <= / 2); [|lra].
  split; [apply Rinv_0_lt_compat; lra|apply Rinv_le_contravar; lra]. }
assert (P : forall i, 0 < root i).
{ induction i as [|i IH]; [simpl; lra|]. change (0 < root i * (1 - / (2 * INR (S i)))). apply Rmult_lt_0_compat; [exact IH|apply H]. }
split; [apply P|]. change (root k * (1 - / (2 * INR (S k))) <= root k). pose proof (P k). pose proof (H k). nra.
Qed.

Definition inverse (k : nat) : R := match k with O => 1 | S i => root (S i) - root i end.

Theorem inverse_root n : sum n (fun k => Rabs (inverse k)) <= 2.
Proof.
destruct n as [|n]; [simpl; lra|].
assert (E : sum (S n) (fun k => Rabs (inverse k)) = 2 - root n).
{ induction n as [|n IH]; [simpl; rewrite Rabs_R1; lra|].
  change (sum (S n) (fun k => Rabs (inverse k)) + Rabs (inverse (S n)) = 2 - root (S n)). rewrite IH. simpl inverse.
  pose proof (root_falls n). change (root n * (1 - / (2 * match n with O => 1 | S _ => INR n + 1 end))) with (root (S n)).
  rewrite Rabs_left1; lra. }
rewrite E. destruct n; [simpl; lra|]. pose proof (root_falls n). lra.
Qed.
