(* docs/privacy/continual_sum.md, "Tree with bottom-up estimates", and docs/privacy/lattice.md, "From noise to releases". *)
(* cpp/src/mechanisms/noise_process.cpp:
     const double own_weight = 1.0 / (1.0 + 1.0 / (2.0 * variance));
     const double children = left[i] + current_[i];
     current_[i] = children + nearest_integer(own_weight * (own_[i] - children));
     variance = own_weight;
*)
From Coq Require Import Reals Lra ZArith Lia.

(* Estimates of nodes, on integers: children have the sums vl and vr and the errors el and er, the node the draw n; r is the rounded
   multiple by the weight. The node's estimate is its sum plus an error in which no data are. *)
Theorem cancellation (r : Z -> Z) (vl vr el er n : Z) :
  ((vl + el) + (vr + er) + r ((vl + vr + n) - (vl + el) - (vr + er)) = (vl + vr) + (el + er + r (n - (el + er))))%Z.
Proof. replace (vl + vr + n - (vl + el) - (vr + er))%Z with (n - (el + er))%Z by ring. ring. Qed.

Open Scope R_scope.

(* Variances of estimates, and the weight of a node's own draw, as noise_process.cpp computes it. *)
Fixpoint variance (j : nat) : R := match j with O => 1 | S i => / (1 + / (2 * variance i)) end.

Lemma power_above_one j : 1 <= 2 ^ j.
Proof. induction j; simpl; lra. Qed.

Theorem variances j : variance j = 2 ^ j / (2 ^ S j - 1).
Proof.
induction j as [|j IH]; [simpl; field|].
pose proof (power_above_one j).
change (variance (S j)) with (/ (1 + / (2 * variance j))). rewrite IH. simpl pow. field. repeat split; lra.
Qed.

(* Of all weights w that of the engine gives the least variance, and that variance is w itself. *)
Theorem best_weight v w : 0 < v -> let best := / (1 + / (2 * v)) in
  best * best + (1 - best) * (1 - best) * (2 * v) = best /\ best <= w * w + (1 - w) * (1 - w) * (2 * v).
Proof.
intros V best. assert (B : best = 2 * v / (1 + 2 * v)) by (unfold best; field; lra).
assert (E : best * best + (1 - best) * (1 - best) * (2 * v) = best) by (rewrite B; field; lra).
split; [exact E|].
assert (D : w * w + (1 - w) * (1 - w) * (2 * v) - best = (1 + 2 * v) * ((w - best) * (w - best))) by (rewrite B; field; lra).
pose proof (Rle_0_sqr (w - best)) as S. unfold Rsqr in S.
assert (0 <= (1 + 2 * v) * ((w - best) * (w - best))) by (apply Rmult_le_pos; lra). lra.
Qed.
