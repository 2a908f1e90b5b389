(* A person takes part in at most K of n rounds, any two at least b apart; C is Toeplitz, its coefficients c 0 >= c 1 >= ... >= 0. Of all such
   patterns {0, b, ..., (K-1) b} has the largest norm of the sum of its columns (arXiv 2405.13763, Theorem 2), also with vectors. *)
From Coq Require Import Reals Lra Lia Arith Psatz.
Open Scope R_scope.

Require Import Additions.

Section Toeplitz.
Variable c : nat -> R.
Hypothesis positive : forall i, 0 <= c i.
Hypothesis falling : forall i j, (i <= j)%nat -> c j <= c i.

Definition column (i t : nat) : R := if (i <=? t)%nat then c (t - i) else 0.
Lemma column_nonneg i t : 0 <= column i t.
Proof. unfold column. destruct Nat.leb; [apply positive|lra]. Qed.

Definition gram (n i j : nat) : R := sum n (fun t => column i t * column j t).
Lemma gram_sym n i j : gram n i j = gram n j i.
Proof. apply sum_ext; intros; ring. Qed.
Lemma gram_nonneg n i j : 0 <= gram n i j.
Proof. apply sum_nonneg. intros. apply Rmult_le_pos; apply column_nonneg. Qed.

(* Column j starts at j: <column i, column j> is a sum of c (s + (j - i)) c s over s < n - j. *)
Lemma gram_is n i j : (i <= j)%nat -> gram n i j = sum (n - j) (fun s => c (s + (j - i)) * c s).
Proof.
intros L. unfold gram. induction n as [|n IH]; [reflexivity|]. 
destruct (le_lt_dec (S n) j) as [A|A].
- simpl sum at 1. rewrite IH. replace (S n - j)%nat with 0%nat by lia. replace (n - j)%nat with 0%nat by lia. simpl.
  unfold column at 2. destruct (Nat.leb_spec j n); [lia|ring].
- replace (S n - j)%nat with (S (n - j)) by lia. simpl. rewrite IH. f_equal. unfold column.
  destruct (Nat.leb_spec i n); [|lia]. destruct (Nat.leb_spec j n); [|lia]. f_equal; f_equal; lia.
Qed.

(* Later columns, and columns farther apart, have less in common. *)
Lemma gram_falls n i j i' j' : (i' <= j')%nat -> (i <= j)%nat -> (j' <= j)%nat -> (j' - i' <= j - i)%nat -> gram n i j <= gram n i' j'.
Proof.
intros A B C D. rewrite !gram_is by assumption.
apply Rle_trans with (sum (n - j) (fun s => c (s + (j' - i')) * c s)).
- apply sum_le. intros s _. apply Rmult_le_compat_r; [apply positive|]. apply falling. lia.
- apply sum_more; [lia|]. intros. apply Rmult_le_pos; apply positive.
Qed.

Definition square_norm (n m : nat) (p : nat -> nat) : R := sum n (fun t => sum m (fun l => column (p l) t) * sum m (fun l => column (p l) t)).

Lemma norm_is n m p : square_norm n m p = sum m (fun l => sum m (fun l' => gram n (p l) (p l'))).
Proof.
unfold square_norm, gram. rewrite (sum_ext n _ _ (fun t _ => square_of_sum m (fun l => column (p l) t))).
rewrite sum_swap. apply sum_ext. intros. apply sum_swap.
Qed.

Section Pattern.
Variables (n K b m : nat) (p : nat -> nat).
Hypothesis few : (m <= K)%nat.
Hypothesis apart : forall l, (S l < m)%nat -> (p l + b <= p (S l))%nat.

Lemma spread l l' : (l <= l')%nat -> (l' < m)%nat -> (p l + (l' - l) * b <= p l')%nat.
Proof.
intros A. induction A as [|k A IH]; intros B; [lia|].
pose proof (apart k B). specialize (IH ltac:(lia)). replace (S k - l)%nat with (S (k - l)) by lia. simpl. lia.
Qed.

Lemma pair_at_most l l' : (l < m)%nat -> (l' < m)%nat -> gram n (p l) (p l') <= gram n (l * b) (l' * b).
Proof.
assert (O : forall a d, (a <= d)%nat -> (d < m)%nat -> gram n (p a) (p d) <= gram n (a * b) (d * b)).
{ intros a d L M. pose proof (spread a d L M). pose proof (spread 0 d ltac:(lia) M).
  pose proof (Nat.mul_le_mono_r a d b L). pose proof (Nat.mul_sub_distr_r d a b).
  rewrite Nat.sub_0_r in H0. apply gram_falls; lia. }
intros A B. destruct (le_lt_dec l l'); [now apply O|].
rewrite gram_sym, (gram_sym n (l * b)). apply O; lia.
Qed.

Theorem worst_pattern : square_norm n m p <= square_norm n K (fun l => l * b)%nat.
Proof.
rewrite !norm_is.
apply Rle_trans with (sum m (fun l => sum m (fun l' => gram n (l * b) (l' * b)))).
- apply sum_le. intros l L. apply sum_le. intros l' L'. now apply pair_at_most.
- apply Rle_trans with (sum m (fun l => sum K (fun l' => gram n (l * b) (l' * b)))).
  + apply sum_le. intros l _. apply sum_more; [exact few|]. intros; apply gram_nonneg.
  + apply (sum_more m K (fun l => sum K (fun l' => gram n (l * b) (l' * b)))); [exact few|].
    intros. apply sum_nonneg. intros. apply gram_nonneg.
Qed.

(* Records are vectors v l of norm at most D: the squared Frobenius norm of sum_l column (p l) v_l' is sum gram <v_l, v_l'>. *)
Theorem worst_pattern_of_vectors (inner : nat -> nat -> R) (D2 : R) : 0 <= D2 -> (forall l l', inner l l' <= D2) ->
  sum m (fun l => sum m (fun l' => gram n (p l) (p l') * inner l l')) <= D2 * square_norm n K (fun l => l * b)%nat.
Proof.
intros P H. apply Rle_trans with (D2 * square_norm n m p); [|apply Rmult_le_compat_l; [exact P|apply worst_pattern]].
rewrite norm_is, <- sum_scale. apply sum_le. intros l _. rewrite <- sum_scale. apply sum_le. intros l' _.
rewrite Rmult_comm. apply Rmult_le_compat_r; [apply gram_nonneg|apply H].
Qed.
End Pattern.
End Toeplitz.
