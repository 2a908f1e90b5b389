(* docs/privacy/lattice.md, "Fast decisions": the budget. e = 2^-53. *)
(* cpp/src/simd/lattice.inl:
     constexpr double kRelativeMargin = 0x1p-48;
     constexpr double kAbsoluteMargin = 0x1p-21;
     const double v = scale * z[i];
     const double nearest = rounded_to_integer(v);
     const double off = v - nearest;
     const bool bad = distance + (size * kRelativeMargin + kAbsoluteMargin) > 0.5 ||
*)
(* cpp/src/simd/variates.inl:
     radius[i] = __builtin_sqrt(2.0 * radius[i]);
     to[i] = radius[i] * el::from_bits(x);
*)
From Coq Require Import Reals Lra Psatz ZArith.
From Flocq Require Import Core.
From Interval Require Import Tactic.
Open Scope R_scope.
Notation e := (/ 9007199254740992).

(* Factors by which what is computed differs from tau z = tau sqrt(-2 log U) cos(phi): l of the logarithm, c and h of root and products,
   p of the cosine or sine with its angle. *)
Theorem product l c p h k : Rabs l <= 9 * e -> Rabs c <= e -> Rabs p <= 6.2 * e -> Rabs h <= e -> Rabs k <= e ->
  Rabs (sqrt (1 + l) * (1 + c) * (1 + p) * (1 + h) * (1 + k) - 1) <= 15 * e.
Proof. intros. interval with (i_prec 150). Qed.

(* -log U with U off by 2 e (1 + e) and the logarithm by 2.7 e, U <= sqrt(1/2) (1 + e): below 9 e. *)
Theorem logarithm U a b : 0 < U <= 0.70711 -> Rabs a <= 2.001 * e -> Rabs b <= 2.7 * e ->
  Rabs (ln (U * (1 + a)) * (1 + b) - ln U) <= 9 * e * (- ln U).
Proof.
intros HU Ha Hb.
assert (P : 0 < 1 + a) by interval.
rewrite ln_mult by lra.
assert (L : ln U <= -0.346) by (apply Rle_trans with (ln 0.70711); [apply Rcomplements.ln_le; lra|interval]).
assert (Q : Rabs (ln (1 + a)) <= 2.01 * e) by interval with (i_prec 120).
apply Rabs_le_inv in Ha. apply Rabs_le_inv in Hb. apply Rabs_le_inv in Q. apply Rabs_le.
set (y := ln U) in *. set (x := ln (1 + a)) in *.
assert (M : - (2.02 * e) <= x * (1 + b) <= 2.02 * e) by nra.
replace ((y + x) * (1 + b) - y) with (x * (1 + b) + y * b) by ring. nra.
Qed.

(* The test of the kernel, with its own three roundings in q: what it accepts is nearest to the true value, off by 23 e and 3/4 2^-21. *)
Theorem decision (v w : R) (n : Z) (q : R) :
  Rabs (w - v) <= 23 * e * Rabs v + 3 / 4 * / 2097152 ->
  Rabs q <= 3 * e ->
  (Rabs (w - IZR n) + (Rabs w * / 281474976710656 + / 2097152)) * (1 + q) <= / 2 ->
  Rabs (v - IZR n) < / 2.
Proof.
intros H Q T.
apply Rabs_le_inv in Q.
assert (A : Rabs v <= Rabs w + Rabs (w - v)).
{ replace v with (w - (w - v)) at 1 by ring. eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_Ropp. lra. }
assert (B : Rabs (v - IZR n) <= Rabs (w - IZR n) + Rabs (w - v)).
{ replace (v - IZR n) with ((w - IZR n) - (w - v)) by ring. eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_Ropp. lra. }
pose proof (Rabs_pos w). pose proof (Rabs_pos (w - IZR n)). pose proof (Rabs_pos v).
assert (C : Rabs (w - IZR n) + (Rabs w * / 281474976710656 + / 2097152) <= / 2 * (1 + 4 * e)) by nra.
lra.
Qed.

Corollary decided (choice : Z -> bool) v w n q : Rabs (w - v) <= 23 * e * Rabs v + 3 / 4 * / 2097152 -> Rabs q <= 3 * e ->
  (Rabs (w - IZR n) + (Rabs w * / 281474976710656 + / 2097152)) * (1 + q) <= / 2 -> Znearest choice v = n.
Proof. intros. apply Znearest_imp. eapply decision; eauto. Qed.
