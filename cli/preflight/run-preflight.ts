import { InitApi } from '../../initproto/gen/init_pb.js';
import { counted } from '../../internal/printable/index.ts';
import { failedChecks } from '../../internal/preflight/index.ts';
import type { ExitName } from '../../internal/errors/index.ts';
import { createClient } from '../../internal/rpc/index.ts';
import type { CommandContext } from '../app/command.ts';
import { exitOfCode } from '../app/explain.ts';
import {
  callPreflight,
  explainRemoteError,
  findLocalManifest,
  readWorkspace,
  remoteChannel,
  type MachineCheckResult,
} from '../cluster/index.ts';
import { formatTable } from '../host/index.ts';
import { PreflightCommandError } from './errors.ts';
import { checkThisMachine, type LocalMachine } from './local-machine.ts';
import { repairMachine, type RepairableMachine } from './repair.ts';

const ROUNDS = 2;
/** Time limit for the description of another machine. */
const ANSWER_MS = 30_000;

/** Flags of `cluster preflight`. */
export interface PreflightCommandOptions {
  /** Address of another machine, called on its init port; undefined for this machine. */
  readonly node?: string;
  readonly fingerprint?: string;
  /** Fix failed checks on this machine. */
  readonly fix?: true;
}

/** `cluster preflight`. Returns the exit name of the first failed check. @throws PreflightCommandError */
export async function runPreflightCommand(
  context: CommandContext,
  local: LocalMachine & RepairableMachine,
  options: PreflightCommandOptions,
): Promise<ExitName> {
  const { node, fix = false } = options;
  if (node !== undefined && fix)
    throw new PreflightCommandError('preflight-fix-elsewhere', `cannot fix ${node}`);
  const results =
    node === undefined ? await here(context, local, fix) : await elsewhere(context, { ...options, node });
  const failures = failedChecks(results);
  const machine = node ?? local.machine.hostname();
  const checks = results.map(({ code, subject, status, figure, threshold, cause, fix }) => {
    return { code, subject, status, figure, threshold, cause, fix };
  });
  context.host.result({ machine, fit: failures.length === 0, checks }, () => render(machine, results));
  const [first] = failures;
  return first === undefined ? 'ok' : (exitOfCode(first.code) ?? 'preflight');
}

async function here(
  context: CommandContext,
  local: LocalMachine & RepairableMachine,
  fix: boolean,
): Promise<readonly MachineCheckResult[]> {
  let results = await checkThisMachine(context, local);
  // A second round is needed because kernel modules that the first round loads add kernel parameters.
  for (let round = 0; fix && round < ROUNDS && results.some(({ repair }) => repair !== undefined); round++) {
    await repairMachine(context, local, results);
    results = await checkThisMachine(context, local);
  }
  return results;
}

/** The results are not secret: any machine that knows the owner key is accepted, unless a fingerprint is given. */
async function elsewhere(
  context: CommandContext,
  { node, fingerprint }: PreflightCommandOptions & { readonly node: string },
): Promise<readonly MachineCheckResult[]> {
  const { layout, config } = await readWorkspace(context);
  using channel = await remoteChannel(context, layout, { node, fingerprint });
  const client = createClient(InitApi, channel);
  try {
    const { signal } = context;
    const { architecture } = await client.describe({}, { signal, timeoutMs: ANSWER_MS });
    const bundle = await findLocalManifest(context, config.kubernetesVersion, architecture);
    const bundleManifest = bundle?.manifestBytes ?? new Uint8Array();
    return await callPreflight(context, client, { nodeName: '', bundleManifest });
  } catch (error) {
    throw await explainRemoteError({ node, fingerprint }, error);
  }
}

function render(machine: string, results: readonly MachineCheckResult[]): string {
  const rows = results.map(({ subject, status, figure, threshold }) => [subject, status, figure, threshold]);
  const problems = results.filter(({ status }) => status !== 'ok');
  const failed = failedChecks(results).length;
  const warnings = problems.filter(({ status }) => status === 'warning').length;
  const skipped = problems.length - failed - warnings;
  const counts = `${counted(warnings, 'warning')}${skipped === 0 ? '' : `, ${counted(skipped, 'check')} skipped`}`;
  return [
    formatTable(['CHECK', 'STATUS', 'FOUND', 'NEEDED'], rows),
    ...problems.flatMap(({ code, status, cause, fix }) => [
      '',
      `${status}: ${cause} [${code}]`,
      ...(fix === '' ? [] : [`  fix: ${fix}`]),
    ]),
    '',
    failed === 0
      ? `${machine} meets the requirements of a node (${counts}).`
      : `${machine} cannot become a node: ${failed} of ${counted(results.length, 'check')} failed (${counts}).`,
  ].join('\n');
}
