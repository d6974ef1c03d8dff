import type { InitApi, MachineCheck } from '../../../initproto/gen/init_pb.js';
import { failedChecks, type CheckResult, type CheckStatus } from '../../../internal/preflight/index.ts';
import { CodedError } from '../../../internal/errors/index.ts';
import { RpcError, type Client } from '../../../internal/rpc/index.ts';
import type { CommandContext, StepProgress } from '../../app/command.ts';
import { exitOfCode } from '../../app/explain.ts';
import { retryConnection } from '../retry-connection.ts';
import { printable } from '../../../internal/printable/index.ts';
import type { InitSession } from './init-session.ts';

/** Long enough for the machine to test its disk and its time service. */
const ANSWER_MS = 30_000;
const CODE = /^[a-z][a-z0-9-]{0,63}$/;
const STATUSES: readonly string[] = ['ok', 'warning', 'failed', 'skipped'] satisfies readonly CheckStatus[];
const MAX_CHECKS = 256;

/** Result of a check on another machine. Its texts come from the machine and are made safe to print. */
export type MachineCheckResult = Omit<CheckResult, 'repair'>;

interface PreflightRequest {
  readonly nodeName: string;
  readonly bundleManifest: Uint8Array;
  /** The snapshots of a backup that is restored. */
  readonly snapshots?: readonly { readonly sha256: string; readonly sizeBytes: bigint }[];
}

/** Runs the preflight checks on a machine that belongs to no cluster. Changes nothing on it. */
export async function callPreflight(
  { ports, signal }: Pick<CommandContext, 'ports' | 'signal'>,
  client: Client<typeof InitApi>,
  request: PreflightRequest,
): Promise<readonly MachineCheckResult[]> {
  const { snapshots = [], ...rest } = request;
  const stamped = { ...rest, snapshots: [...snapshots], nowMs: BigInt(ports.clock.nowMs()) };
  const { checks } = await client.preflight(stamped, { signal, timeoutMs: ANSWER_MS });
  return checks.slice(0, MAX_CHECKS).map(fromWire);
}

/**
 * Runs the preflight checks before anything is uploaded. An agent of a version without this call runs them when the init
 * starts.
 * @throws CodedError with the code of the first check that failed
 */
export async function requirePreflight(
  context: CommandContext,
  session: InitSession,
  request: PreflightRequest,
  progress: StepProgress,
): Promise<void> {
  const doing = `running preflight checks on ${session.machine.endpoint}`;
  const onLost = (why: string): void => progress.update(`connection lost (${why}), retrying`);
  const tries = { clock: context.ports.clock, signal: context.signal, doing, onLost };
  const results = await retryConnection(tries, () => callPreflight(context, session.client, request)).catch(
    (error: unknown) => {
      if (error instanceof RpcError && error.code === 'rpc-not-served') return [];
      throw error;
    },
  );
  for (const { code, subject, status, cause } of results) {
    if (status === 'warning') context.host.warn(code, `${subject}: ${cause}`);
  }
  const failures = failedChecks(results);
  const [first, ...others] = failures;
  if (first === undefined) return;
  const more = others.map(({ cause }) => cause).join('; ');
  const text = `${doing}: ${first.cause}${others.length === 0 ? '' : ` (and ${others.length} more: ${more})`}`;
  const exit = exitOfCode(first.code) ?? 'preflight';
  const spec = { fault: 'peer', exit, retryable: true, meaning: text, fix: first.fix } as const;
  throw new CodedError({ [first.code]: spec }, first.code, text, { details: { checks: failures } });
}

function fromWire(check: MachineCheck): MachineCheckResult {
  const text = (value: string): string => printable(value) ?? '';
  return {
    code: CODE.test(check.code) ? check.code : 'cluster-machine-unfit',
    subject: text(check.subject),
    // An unknown status, perhaps of a newer agent, counts as a failure.
    status: isStatus(check.status) ? check.status : 'failed',
    figure: text(check.figure),
    threshold: text(check.threshold),
    cause: text(check.cause),
    fix: text(check.fix),
  };
}

function isStatus(text: string): text is CheckStatus {
  return STATUSES.includes(text);
}
