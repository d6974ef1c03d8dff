import type { InitApi, MachineCheck } from '../../../initproto/gen/init_pb.js';
import { failedChecks, type CheckResult, type CheckStatus } from '../../../internal/preflight/index.ts';
import { CodedError } from '../../../internal/errors/index.ts';
import { RpcError, type Client } from '../../../internal/rpc/index.ts';
import type { CommandContext, StepProgress } from '../../app/command.ts';
import { exitOfCode } from '../../app/explain.ts';
import { retryConnection } from '../retry-connection.ts';
import { printable } from '../../../internal/printable/index.ts';
import type { InitSession } from './init-session.ts';

/** The machine looks at its ports, its disk and its time service. */
const ANSWER_MS = 30_000;
const CODE = /^[a-z][a-z0-9-]{0,63}$/;
const STATUSES: readonly string[] = ['ok', 'warning', 'failed', 'skipped'] satisfies readonly CheckStatus[];
const MAX_CHECKS = 256;

/** What a check on another machine says; every text is the machine's word, cut to what a terminal may be shown. */
export type MachineCheckResult = Omit<CheckResult, 'repair'>;

interface Asked {
  readonly nodeName: string;
  readonly bundleManifest: Uint8Array;
}

/** Asks a machine that is nobody's yet to check itself. It changes nothing. */
export async function callPreflight(
  { ports, signal }: Pick<CommandContext, 'ports' | 'signal'>,
  client: Client<typeof InitApi>,
  asked: Asked,
): Promise<readonly MachineCheckResult[]> {
  const request = { ...asked, nowMs: BigInt(ports.clock.nowMs()) };
  const { checks } = await client.preflight(request, { signal, timeoutMs: ANSWER_MS });
  return checks.slice(0, MAX_CHECKS).map(fromWire);
}

/**
 * Before anything is uploaded: what the machine would refuse later it says now. An agent of a version that does not know the
 * question checks itself when the init begins, as it always did.
 * @throws CodedError with the code of the first check that failed
 */
export async function requirePreflight(
  context: CommandContext,
  session: InitSession,
  asked: Asked,
  progress: StepProgress,
): Promise<void> {
  const doing = `checking ${session.machine.endpoint}`;
  const onLost = (why: string): void => progress.update(`connection lost (${why}), retrying`);
  const tries = { clock: context.ports.clock, signal: context.signal, doing, onLost };
  const results = await retryConnection(tries, () => callPreflight(context, session.client, asked)).catch(
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
    // Of a newer agent perhaps: what is not known to be good counts as a failure.
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
