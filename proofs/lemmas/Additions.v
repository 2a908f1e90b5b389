(* Finite sums of reals, as other files use them. *)
From Coq Require Import Reals Lra Lia Arith Psatz.
Open Scope R_scope.

Fixpoint sum (n : nat) (f : nat -> R) : R := match n with O => 0 | S m => sum m f + f m end.

Lemma sum_le n f g : (forall i, (i < n)%nat -> f i <= g i) -> sum n f <= sum n g.
Proof. induction n as [|n IH]; intros H; simpl; [lra|]. pose proof (H n ltac:(lia)). assert (sum n f <= sum n g) by (apply IH; intros; apply H; lia). lra. Qed.
Lemma sum_ext n f g : (forall i, (i < n)%nat -> f i = g i) -> sum n f = sum n g.
Proof. intros H. apply Rle_antisym; apply sum_le; intros i I; rewrite (H i I); lra. Qed.
Lemma sum_plus n f g : sum n (fun i => f i + g i) = sum n f + sum n g.
Proof. induction n; simpl; lra. Qed.
Lemma sum_scale n a f : sum n (fun i => a * f i) = a * sum n f.
Proof. induction n as [|n IH]; simpl; [lra|]. rewrite IH. lra. Qed.
Lemma sum_zero n : sum n (fun _ => 0) = 0.
Proof. induction n; simpl; lra. Qed.
Lemma sum_swap n m f : sum n (fun i => sum m (fun j => f i j)) = sum m (fun j => sum n (fun i => f i j)).
Proof. induction n as [|n IH]; simpl; [now rewrite sum_zero|]. rewrite IH, <- sum_plus. apply sum_ext; reflexivity. Qed.
Lemma sum_nonneg n f : (forall i, (i < n)%nat -> 0 <= f i) -> 0 <= sum n f.
Proof. intros H. rewrite <- (sum_zero n). apply sum_le, H. Qed.
Lemma sum_more n m f : (n <= m)%nat -> (forall i, 0 <= f i) -> sum n f <= sum m f.
Proof. intros L H. induction L; [lra|]. simpl. pose proof (H m). lra. Qed.
Lemma square_of_sum m f : sum m f * sum m f = sum m (fun l => sum m (fun l' => f l * f l')).
Proof. rewrite <- sum_scale. apply sum_ext. intros. now rewrite sum_scale, Rmult_comm. Qed.
Lemma sum_first n f : sum (S n) f = f 0%nat + sum n (fun i => f (S i)).
Proof. induction n as [|n IH]; [simpl; lra|]. simpl in *. rewrite IH. lra. Qed.
Lemma sum_powers n q : q <> 1 -> sum n (fun t => q ^ t) = (1 - q ^ n) / (1 - q).
Proof. intros H. induction n as [|n IH]; simpl; [field; lra|]. rewrite IH. field. lra. Qed.
