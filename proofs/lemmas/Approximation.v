(* docs/privacy/lattice.md, "Fast decisions": what the polynomials of cosine, and of log where k <> 0, leave out, against cos and ln themselves. *)
From Coq Require Import Reals Lra.
From Interval Require Import Tactic.
Open Scope R_scope.

Theorem cosine x : 0 <= x <= 0.7854 ->
  Rabs (cos x - (
    @coq cosine 16
    v16)) <= 1 / 2 ^ 59.
Proof. intros. cbv zeta. interval with (i_prec 90, i_bisect x, i_taylor x, i_degree 14). Qed.

(* The result of log_near_one is the last operation, negated. *)
Theorem log f : -0.2928933 <= f <= 0.4142136 ->
  Rabs (ln (1 + f) + (
    @coq log_near_one 23
    v23)) <= 1 / 2 ^ 60.
Proof. intros. cbv zeta. interval with (i_prec 90, i_bisect f, i_taylor f, i_degree 14, i_depth 12). Qed.
