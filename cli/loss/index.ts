/**
 * What a command takes away, and that somebody has agreed to it.
 *
 *     --yes ─────────────────▶ go on
 *     a person at a terminal ─▶ shown what is lost, asked ─▶ go on, or `loss-declined`
 *     nobody can be asked ────▶ `loss-not-confirmed`
 *
 * Commands ask after all their checks and before their first change, so a refusal has changed nothing.
 */
export { confirmLoss, renderLosses, type Loss } from './confirm-loss.ts';
export { LossError, lossErrors, type LossErrorCode } from './errors.ts';
