/**
 * Confirmation of a command that deletes something.
 *
 *     --yes ─────────────────▶ continue
 *     a user at a terminal ──▶ sees the loss, is asked ─▶ continue, or `loss-declined`
 *     no terminal ───────────▶ `loss-not-confirmed`
 *
 * Commands ask after all checks and before the first change: a refusal has changed nothing.
 */
export { confirmLoss, renderLosses } from './confirm-loss.ts';
