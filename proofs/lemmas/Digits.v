(* docs/privacy/lattice.md, "Fast decisions": what digits of U and V that are not known yet can change. *)
From Coq Require Import Reals Lra Psatz.
From Flocq Require Import Core.
From Interval Require Import Tactic.
Open Scope R_scope.
Notation e := (/ 9007199254740992).
Notation t65 := (/ 36893488147419103232). (* 2^-65, half of the cell of U *)
Definition radius (U : R) : R := sqrt (-2 * ln U).

Lemma radii L H : 0 < L <= H -> H < 1 -> 0 <= radius L - radius H <= (H - L) / (L * radius H).
Proof.
intros A B. unfold radius.
assert (lnH : ln H < 0) by (rewrite <- ln_1; apply ln_increasing; lra).
assert (lnL : ln L <= ln H) by (destruct A as [A [C|C]]; [apply Rlt_le, ln_increasing; lra|rewrite C; lra]).
assert (P : 0 < sqrt (-2 * ln H)) by (apply sqrt_lt_R0; lra).
assert (Q : sqrt (-2 * ln H) <= sqrt (-2 * ln L)) by (apply sqrt_le_1_alt; lra).
split; [lra|].
assert (E : ln H - ln L <= (H - L) / L).
{ replace ((H - L) / L) with (H / L - 1) by (field; lra).
  replace (ln H - ln L) with (ln (H / L)) by (unfold Rdiv; rewrite ln_mult, ln_Rinv by (try apply Rinv_0_lt_compat; lra); ring). pose proof (exp_ineq1_le (ln (H / L))) as X. rewrite exp_ln in X; [lra|].
  apply Rmult_lt_0_compat; [lra|apply Rinv_0_lt_compat; lra]. }
set (r := sqrt (-2 * ln H)) in *. set (R := sqrt (-2 * ln L)) in *.
assert (S : R * R - r * r = 2 * (ln H - ln L)) by (unfold R, r; rewrite !sqrt_sqrt by lra; ring).
apply Rmult_le_reg_r with r; [exact P|].
replace ((H - L) / (L * r) * r) with ((H - L) / L) by (field; lra). nra.
Qed.

(* U within half a cell of the true U', the squared radius from 2^-27 to 26. *)
Theorem digits_of_radius U U' : 0.00000225 <= U <= 1 - 0.00000000372 -> Rabs (U' - U) <= t65 ->
  Rabs (radius U' - radius U) <= 4.2 * e * radius U + 0.0000000000000003146.
Proof.
intros HU D. apply Rabs_le_inv in D.
assert (Near : forall L H, 0 < L <= H -> H < 1 -> H - L <= t65 -> (U = L \/ U = H) -> radius L - radius H <= 4.2 * e * radius U + 0.0000000000000003146).
{ intros L H A B C W.
  destruct (radii L H A B) as [G1 G2].
  assert (HL : U - t65 <= L <= U + t65) by (destruct W; lra). assert (HH : U - t65 <= H <= U + t65) by (destruct W; lra).
  assert (RU : radius H <= radius U) by (destruct W as [->| ->]; lra).
  assert (RP : 0 < radius H) by (unfold radius; apply sqrt_lt_R0; assert (ln H < 0) by (rewrite <- ln_1; apply ln_increasing; lra); lra).
  assert (LP : 0 < L) by lra.
  eapply Rle_trans; [exact G2|].
  apply Rle_trans with (t65 / (L * radius H)).
  { unfold Rdiv. apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat, Rmult_lt_0_compat; lra|lra]. }
  destruct (Rle_dec U 0.9999) as [Small|Large].
  - assert (Sq : 0.0000584 <= L * (radius H * radius H)).
    { unfold radius. rewrite sqrt_sqrt by (assert (ln H < 0) by (rewrite <- ln_1; apply ln_increasing; lra); lra).
      assert (Low : ln H <= ln (U + t65)) by (destruct (proj2 HH) as [X|X]; [apply Rlt_le, ln_increasing; lra|rewrite X; lra]).
      apply Rle_trans with ((U - t65) * (-2 * ln (U + t65))); [|apply Rmult_le_compat; try lra].
      - interval with (i_bisect U, i_prec 80, i_depth 30).
      - assert (ln (U + t65) < 0) by (rewrite <- ln_1; apply ln_increasing; lra). lra. }
    apply Rle_trans with (4.2 * e * radius H); [|assert (4.2 * e * radius H <= 4.2 * e * radius U) by (apply Rmult_le_compat_l; lra); lra].
    apply Rmult_le_reg_r with (L * radius H); [apply Rmult_lt_0_compat; lra|].
    replace (t65 / (L * radius H) * (L * radius H)) with t65 by (field; lra).
    replace (4.2 * e * radius H * (L * radius H)) with (4.2 * e * (L * (radius H * radius H))) by ring. lra.
  - assert (Rad : 0.0000862 <= radius H).
    { apply Rle_trans with (radius (1 - 0.000000003719)).
      - unfold radius. interval with (i_prec 120).
      - unfold radius. apply sqrt_le_1_alt. assert (ln H <= ln (1 - 0.000000003719)) by (apply Rlt_le, ln_increasing; lra). lra. }
    assert (M : 0.9998 * 0.0000862 <= L * radius H) by (apply Rmult_le_compat; lra).
    assert (t65 / (L * radius H) <= 0.0000000000000003146); [|assert (0 <= 4.2 * e * radius U) by (apply Rmult_le_pos; lra); lra].
    apply Rmult_le_reg_r with (L * radius H); [lra|].
    replace (t65 / (L * radius H) * (L * radius H)) with t65 by (field; lra). lra. }
destruct (Rle_dec U U') as [L|L].
- rewrite Rabs_left1; [|destruct (radii U U'); lra].
  replace (- (radius U' - radius U)) with (radius U - radius U') by ring. apply Near; auto; lra.
- rewrite Rabs_pos_eq; [|destruct (radii U' U); lra]. apply Near; auto; lra.
Qed.

(* Both kinds of digits and the 15 e of Decision.v: what Decision.v asks. c is the cosine or sine of the angle at hand, c' of the true one,
   which is within pi/2 2^-63; w is what the program computes, tau the scale in grids. *)
Theorem unknown tau U U' c c' w : 0 <= tau <= 1073741824 ->
  0.00000225 <= U <= 1 - 0.00000000372 -> Rabs (U' - U) <= t65 -> Rabs c <= 1 -> Rabs (c' - c) <= PI / 2 / 9223372036854775808 ->
  Rabs (w - tau * radius U * c) <= 15 * e * Rabs (tau * radius U * c) ->
  Rabs (w - tau * radius U' * c') <= 23 * e * Rabs (tau * radius U' * c') + 3 / 4 * / 2097152.
Proof.
intros T HU D C A W. pose proof (digits_of_radius U U' HU D) as G.
assert (R : 0 <= radius U <= 5.11) by (unfold radius; interval with (i_prec 80)).
assert (R' : 0 <= radius U') by apply sqrt_pos.
assert (B : Rabs (c' - c) <= 0.00000000000000000018) by (eapply Rle_trans; [exact A|interval]).
set (p := tau * radius U * c) in *. set (v := tau * radius U' * c') in *.
assert (R2 : radius U' <= 5.12) by (apply Rabs_le_inv in G; lra).
assert (E : Rabs (p - v) <= 4.2 * e * Rabs p + 0.0000003395).
{ replace (p - v) with (- (tau * c * (radius U' - radius U)) - tau * radius U' * (c' - c)) by (unfold p, v; ring).
  unfold Rminus at 1. eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_Ropp.
  assert (X : Rabs (tau * c * (radius U' - radius U)) <= 4.2 * e * Rabs p + 0.0000003379).
  { unfold p. rewrite !Rabs_mult, (Rabs_pos_eq tau), (Rabs_pos_eq (radius U)) by lra. pose proof (Rabs_pos c).
    apply Rle_trans with (tau * Rabs c * (4.2 * e * radius U + 0.0000000000000003146)).
    - apply Rmult_le_compat_l; [apply Rmult_le_pos; lra|exact G].
    - assert (tau * Rabs c <= 1073741824 * 1) by (apply Rmult_le_compat; lra). lra. }
  assert (Y : Rabs (tau * radius U' * (c' - c)) <= 0.0000000015).
  { rewrite !Rabs_mult, (Rabs_pos_eq tau), (Rabs_pos_eq (radius U')) by lra.
    apply Rle_trans with (1073741824 * 5.12 * 0.00000000000000000018); [|lra].
    apply Rmult_le_compat; try apply Rabs_pos; [apply Rmult_le_pos; lra|apply Rmult_le_compat; lra|exact B]. }
  lra. }
assert (F : Rabs (w - v) <= Rabs (w - p) + Rabs (p - v)).
{ replace (w - v) with ((w - p) + (p - v)) by ring. apply Rabs_triang. }
assert (P : Rabs p <= Rabs v + Rabs (p - v)).
{ replace p with (v + (p - v)) at 1 by ring. apply Rabs_triang. }
pose proof (Rabs_pos p). pose proof (Rabs_pos v). lra.
Qed.
