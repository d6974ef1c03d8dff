import { childSignal, untilAborted } from '../../../internal/cleanup/index.ts';
import { Backoff, type Clock } from '../../../internal/clock/index.ts';
import { CodedError, describeError, findCoded } from '../../../internal/errors/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import { isLockedDiskError } from '../../disk/index.ts';

const PAUSES = { firstMs: 1_000, factor: 1.6, longestMs: 60_000 };
/** The pause after the refusal of a signer, which does not pass by itself, but an operator may end. */
const REFUSED_MS = 300_000;

/** Runs the recovery of an owner; no question to a signer runs meanwhile. */
type Preempt = <T>(recover: () => Promise<T>) => Promise<T>;

/** Ports (injected dependencies) of a machine whose cluster share is with the signers. */
export interface ShareWaitPorts {
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  /** Asks the signers once, and opens the disk. The signal, which also fires when an owner recovers the disk, ends the question only; repeatable. */
  attempt(alive: AbortSignal): Promise<unknown>;
  /** Lets an owner recover the disk, over the network and at the console, until one has. */
  serve(preempt: Preempt, signal: AbortSignal): Promise<void>;
  /** Shows what the machine waits for. Called when the codes of the last error change. */
  show(text: string, error: CodedError): Promise<void>;
}

/**
 * Opens a disk whose cluster share is with the signers. Asks once; then again and again, with growing pauses, while an owner can recover
 * the disk. Other errors that may pass, like those of the TPM, are shown and repeated too: the shares that owners have sent are in this
 * process. Asks no more if the TPM does not release the node share. Resolves when the disk is open, by whatever means.
 * @throws what `attempt` throws and no further attempt changes
 */
export async function openWithShare(ports: ShareWaitPorts, signal: AbortSignal): Promise<void> {
  const sinceMs = ports.clock.nowMs();
  const first = await ports.attempt(signal).then(
    () => undefined,
    (error: unknown) => {
      signal.throwIfAborted();
      return waitableErrorOf(error);
    },
  );
  if (first === undefined) return;
  using until = childSignal(signal);
  const gate = new RecoveryGate();
  const serving = ports.serve((recover) => gate.preempt(recover), until.signal);
  const requesting = askAgain(ports, { gate, sinceMs, first }, until.signal).then(async () => {
    // An owner whose recovery arrived while the disk was opened gets an answer.
    if (await gate.idle()) await serving;
  });
  try {
    await Promise.race([requesting, serving]);
  } finally {
    until.abort(new Error('the state disk is open'));
    await Promise.allSettled([requesting, serving]);
  }
}

async function askAgain(
  ports: ShareWaitPorts,
  {
    gate,
    sinceMs,
    first,
  }: { readonly gate: RecoveryGate; readonly sinceMs: number; readonly first: CodedError },
  signal: AbortSignal,
): Promise<void> {
  const { clock, random, log } = ports;
  const backoff = new Backoff({ ...PAUSES, random });
  let shown = '';
  for (let error: CodedError | undefined = first; error !== undefined;) {
    // Only codes are compared: details may change with each attempt, and each text on the console disturbs an owner who types a code.
    const codes = codesOf(error);
    if (codes !== shown) await ports.show(waitText(sinceMs, error), error);
    shown = codes;
    // The registers keep their values until the machine starts again.
    if (isLockedDiskError(error)) return untilAborted(signal);
    const pauseMs = backoff.nextMs(error.code === 'disk-share-refused' ? REFUSED_MS : 0);
    log.warn('state disk not opened with a cluster share, asking again', { error, pauseMs });
    await clock.sleep(pauseMs, signal);
    error = await gate.round((round) => ports.attempt(round), signal);
  }
}

/** One line: what the machine waits for, since when, and the last error. */
function waitText(sinceMs: number, error: CodedError): string {
  if (isLockedDiskError(error)) return `${error.code}: ${describeError(error)}. Fix: ${error.fix}`;
  const since = new Date(sinceMs).toISOString();
  // The cause says what is to be done in this case.
  const { fix } = findCoded(error.cause) ?? { fix: '' };
  return `waits for the cluster share of the state disk since ${since}; last error: ${codesOf(error)}: ${describeError(error)}. Fix: ${fix === '' ? error.fix : fix}`;
}

/** The code of an error, and that of its cause. */
function codesOf({ code, cause }: CodedError): string {
  const of = findCoded(cause)?.code ?? code;
  return of === code ? code : `${code} (${of})`;
}

/** The error, if it may pass, or if an owner can recover the disk. */
function waitableErrorOf(error: unknown): CodedError {
  if (error instanceof CodedError && error.retryable) return error as CodedError;
  throw error as Error;
}

/** Lets one of two things happen at a time: an attempt with the share of a signer, whose question a recovery ends, or a recovery. */
class RecoveryGate {
  #round: { readonly abort: () => void; readonly ended: Promise<unknown> } | undefined;
  #recovery: Promise<boolean> = Promise.resolve(false);

  /** Resolves with an error that may pass; undefined if the disk is open. After a recovery the question is repeated. */
  async round(
    attempt: (signal: AbortSignal) => Promise<unknown>,
    signal: AbortSignal,
  ): Promise<CodedError | undefined> {
    for (;;) {
      await this.idle();
      signal.throwIfAborted();
      using round = childSignal(signal);
      const running = attempt(round.signal);
      this.#round = { abort: () => round.abort(), ended: running.catch(() => undefined) };
      try {
        await running;
        return undefined;
      } catch (error) {
        signal.throwIfAborted();
        if (!round.signal.aborted) return waitableErrorOf(error);
      } finally {
        this.#round = undefined;
      }
    }
  }

  preempt: Preempt = (recover) => {
    const running = this.#recovery.then(async () => {
      this.#round?.abort();
      await this.#round?.ended;
      return recover();
    });
    this.#recovery = running.then(
      () => true,
      () => false,
    );
    return running;
  };

  /** Waits until no recovery runs. Resolves to whether the last one has opened the disk. */
  async idle(): Promise<boolean> {
    for (;;) {
      const last = this.#recovery;
      const hasOpened = await last;
      if (last === this.#recovery) return hasOpened;
    }
  }
}
