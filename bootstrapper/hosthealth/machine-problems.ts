import { readAtMostEvery, type Clock } from '../../internal/clock/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import {
  collectRunningFacts,
  RUNNING_CHECKS,
  runChecks,
  type NodeNetwork,
} from '../../internal/preflight/index.ts';

const READ_MS = 20_000;

/** A setting of this machine that is not as a node needs it. */
export interface MachineProblem {
  /** The error code of the check, as `cluster preflight` prints it. */
  readonly code: string;
  /** "net.ipv4.ip_forward" */
  readonly subject: string;
  readonly cause: string;
  readonly isWarning: boolean;
}

/** Creates a function that repeats checks of `cluster preflight` on this running node, at most every 20 s. */
export function createMachineCheck(
  { files, clock }: { readonly files: FilePort; readonly clock: Pick<Clock, 'monotonicMs'> },
  options: { readonly allowsCgroupV1: boolean; readonly node: () => NodeNetwork },
): () => Promise<readonly MachineProblem[]> {
  return readAtMostEvery(READ_MS, clock, async () =>
    runChecks(RUNNING_CHECKS, await collectRunningFacts(files, { ...options, ...options.node() })).flatMap(
      ({ code, subject, cause, status }) =>
        status === 'failed' || status === 'warning'
          ? [{ code, subject, cause, isWarning: status === 'warning' }]
          : [],
    ),
  );
}
