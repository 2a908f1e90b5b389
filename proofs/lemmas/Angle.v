(* docs/privacy/lattice.md, "Fast decisions": an error d of the angle changes its sine and its cosine by the factor 1 + d at most. *)
From Coq Require Import Reals Lra Psatz.
From Flocq Require Import Core.
From Interval Require Import Tactic.
Open Scope R_scope.

Lemma small_sine t : Rabs (sin t) <= Rabs t.
Proof.
destruct (Rle_dec 0 t) as [P|N].
- rewrite (Rabs_pos_eq t P). destruct (Req_dec t 0) as [->|Z]; [rewrite sin_0, Rabs_R0; lra|].
  apply Rabs_le. pose proof (sin_lt_x t ltac:(lra)). destruct (Rle_dec t PI).
  + pose proof (sin_ge_0 t ltac:(lra) ltac:(lra)). lra.
  + pose proof (SIN_bound t). assert (3 < PI) by interval. lra.
- rewrite (Rabs_left t) by lra. rewrite <- (Ropp_involutive t) at 1. rewrite sin_neg, Rabs_Ropp.
  apply Rabs_le. pose proof (sin_lt_x (- t) ltac:(lra)). destruct (Rle_dec (- t) PI).
  + pose proof (sin_ge_0 (- t) ltac:(lra) ltac:(lra)). lra.
  + pose proof (SIN_bound (- t)). assert (3 < PI) by interval. lra.
Qed.

Lemma small_versine t : 0 <= 1 - cos t <= t * t / 2.
Proof.
replace t with (2 * (t / 2)) at 1 2 by field. rewrite cos_2a_sin.
pose proof (small_sine (t / 2)) as S.
assert (Q : sin (t / 2) * sin (t / 2) <= t / 2 * (t / 2)) by (apply Rsqr_le_abs_1 in S; exact S).
pose proof (Rle_0_sqr (sin (t / 2))) as P. unfold Rsqr in P. lra.
Qed.

Lemma falls_short x : 0 <= x <= 0.7854 -> x * cos x + x * x * x / 4 <= sin x.
Proof.
intros H. assert (3 < PI) by interval.
destruct (sin_bound x 0 ltac:(lra) ltac:(lra)) as [S _]. destruct (cos_bound x 0 ltac:(lra) ltac:(lra)) as [_ C].
unfold sin_approx, sin_term, cos_approx, cos_term in *. simpl in *.
assert (A : x - x * x * x / 6 <= sin x) by lra. assert (B : cos x <= 1 - x * x / 2 + x * x * x * x / 24) by lra.
assert (x * cos x <= x * (1 - x * x / 2 + x * x * x * x / 24)) by (apply Rmult_le_compat_l; lra).
assert (0 <= x * x * x) by (repeat apply Rmult_le_pos; lra).
assert (x * x <= 1) by nra. nra.
Qed.

Theorem sine_of x d : 0 <= x <= 0.7854 -> Rabs d <= / 4 -> Rabs (sin (x * (1 + d)) - sin x) <= Rabs d * sin x.
Proof.
intros H D. replace (x * (1 + d)) with (x + x * d) by ring. rewrite sin_plus.
replace (sin x * cos (x * d) + cos x * sin (x * d) - sin x) with (- (sin x * (1 - cos (x * d))) + cos x * sin (x * d)) by ring.
eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_Ropp, !Rabs_mult.
assert (C : 0 <= cos x) by interval. assert (3 < PI) by interval. pose proof (sin_ge_0 x ltac:(lra) ltac:(lra)) as S.
pose proof (small_versine (x * d)) as V. pose proof (small_sine (x * d)) as T. rewrite (Rabs_pos_eq (sin x)), (Rabs_pos_eq (cos x)), (Rabs_pos_eq (1 - cos (x * d))) by lra.
rewrite Rabs_mult, (Rabs_pos_eq x) in T by lra. pose proof (falls_short x H) as F. pose proof (Rabs_pos d) as N.
assert (E : x * d * (x * d) = x * x * (Rabs d * Rabs d)) by (rewrite <- Rabs_mult, (Rabs_pos_eq (d * d)) by (apply Rle_0_sqr); ring).
rewrite E in V.
assert (SX : sin x <= x) by (destruct (Req_dec x 0) as [->|Z]; [rewrite sin_0; lra|apply Rlt_le, sin_lt_x; lra]).
assert (A : cos x * Rabs (sin (x * d)) <= cos x * (x * Rabs d)) by (apply Rmult_le_compat_l; lra).
assert (Q : 0 <= x * x * (Rabs d * Rabs d)) by (repeat apply Rmult_le_pos; lra).
assert (B : sin x * (1 - cos (x * d)) <= x * (x * x * (Rabs d * Rabs d) / 2)) by (apply Rmult_le_compat; lra).
assert (X3 : 0 <= x * x * x) by (repeat apply Rmult_le_pos; lra).
assert (G : x * (x * x * (Rabs d * Rabs d) / 2) <= Rabs d * (x * x * x / 4)).
{ replace (x * (x * x * (Rabs d * Rabs d) / 2)) with (x * x * x * (Rabs d * Rabs d / 2)) by field.
  replace (Rabs d * (x * x * x / 4)) with (x * x * x * (Rabs d / 4)) by field. apply Rmult_le_compat_l; [exact X3|]. nra. }
assert (Rabs d * (x * cos x + x * x * x / 4) <= Rabs d * sin x) by (apply Rmult_le_compat_l; lra). lra.
Qed.

Theorem cosine_of x d : 0 <= x <= 0.7854 -> Rabs d <= / 4 -> Rabs (cos (x * (1 + d)) - cos x) <= Rabs d * cos x.
Proof.
intros H D. replace (x * (1 + d)) with (x + x * d) by ring. rewrite cos_plus.
replace (cos x * cos (x * d) - sin x * sin (x * d) - cos x) with (- (cos x * (1 - cos (x * d))) + - (sin x * sin (x * d))) by ring.
eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_Ropp, !Rabs_mult.
assert (C : 0.7071 <= cos x) by interval. assert (3 < PI) by interval. pose proof (sin_ge_0 x ltac:(lra) ltac:(lra)) as S.
assert (SX : sin x <= 0.70711) by interval.
pose proof (small_versine (x * d)) as V. pose proof (small_sine (x * d)) as T. rewrite (Rabs_pos_eq (sin x)), (Rabs_pos_eq (cos x)), (Rabs_pos_eq (1 - cos (x * d))) by lra.
rewrite Rabs_mult, (Rabs_pos_eq x) in T by lra. pose proof (Rabs_pos d) as N.
assert (E : x * d * (x * d) = x * x * (Rabs d * Rabs d)) by (rewrite <- Rabs_mult, (Rabs_pos_eq (d * d)) by (apply Rle_0_sqr); ring).
rewrite E in V.
assert (A : sin x * Rabs (sin (x * d)) <= 0.70711 * (0.7854 * Rabs d)).
{ apply Rmult_le_compat; try lra; [apply Rabs_pos|]. assert (x * Rabs d <= 0.7854 * Rabs d) by (apply Rmult_le_compat_r; lra). lra. }
assert (XX : 0 <= x * x <= 0.617) by nra. assert (DD : 0 <= Rabs d * Rabs d <= Rabs d / 4) by nra.
assert (B : x * x * (Rabs d * Rabs d) <= 0.617 * (Rabs d / 4)) by (apply Rmult_le_compat; lra).
assert (B2 : cos x * (1 - cos (x * d)) <= cos x * (0.617 * (Rabs d / 4) / 2)) by (apply Rmult_le_compat_l; lra).
nra.
Qed.
