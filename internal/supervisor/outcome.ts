import { CodedError, describeError } from '../errors/index.ts';
import { RestartRequested } from './runnable.ts';

/** How one life of a runnable ended. */
export type Outcome =
  | { readonly kind: 'done' }
  | { readonly kind: 'canceled' }
  | { readonly kind: 'restart'; readonly reason: string }
  | { readonly kind: 'dead'; readonly error: unknown };

/** What is known at the end of a life. */
export interface LifeEnd {
  readonly signal: AbortSignal;
  readonly saidDone: boolean;
  readonly result: { readonly kind: 'returned' } | { readonly kind: 'threw'; readonly error: unknown };
}

/**
 * Abort is not failure: returning, or throwing the reason (bare or as a cause), after the signal fired
 * is `canceled`. Any other error is a death, also while stopping: it may be the reason why it was stopped.
 */
export function outcomeOf({ signal, saidDone, result }: LifeEnd): Outcome {
  if (result.kind === 'returned') {
    if (saidDone) return { kind: 'done' };
    if (signal.aborted) return { kind: 'canceled' };
    return { kind: 'dead', error: new Error('returned without done()') };
  }
  for (const error of chain(result.error)) {
    if (signal.aborted && (error === signal.reason || isNamed(error, 'AbortError')))
      return { kind: 'canceled' };
    if (error instanceof RestartRequested) {
      return signal.aborted ? { kind: 'canceled' } : { kind: 'restart', reason: error.message };
    }
  }
  return { kind: 'dead', error: result.error };
}

function* chain(error: unknown): Generator {
  for (let at = error, depth = 0; at !== undefined && depth < 16; depth++) {
    yield at;
    at = at instanceof Error ? at.cause : undefined;
  }
}

function isNamed(error: unknown, name: string): boolean {
  return error instanceof Error && error.name === name;
}

/** What the log says about a death: the chain, and the stack of what nobody foresaw. */
export function describeDeath(error: unknown): { readonly error: string; readonly stack?: string } {
  const unforeseen = error instanceof Error && !(error instanceof CodedError) ? error.stack : undefined;
  return { error: describeError(error), ...(unforeseen === undefined ? {} : { stack: unforeseen }) };
}
