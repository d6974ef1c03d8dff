import { DEFAULT_KUBERNETES_VERSION } from '../../internal/bundle/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import {
  collectMachineFacts,
  findTpmProblem,
  LEAST_SPACE,
  neededSpace,
  runChecks,
  uploadBytes,
  MACHINE_CHECKS,
  type CheckResult,
  type CollectOptions,
  type NeededSpace,
} from '../../internal/preflight/index.ts';
import {
  ConfigError,
  MAX_PROVISIONING_BYTES,
  parseProvisioning,
  PROVISIONING_PATH,
  type Provisioning,
} from '../../internal/config/index.ts';
import type { StreamPort } from '../../internal/file/index.ts';
import type { MachinePort } from '../../internal/platform/index.ts';
import type { CommandContext } from '../app/command.ts';
import { findLocalManifest } from '../cluster/index.ts';

/** The node lock. It exists on every machine that belongs to a cluster (bootstrapper/nodelock). */
const LOCK_PATH = '/var/lib/cluster/enrolment/lock.json';

/** Access to the machine that this program runs on. */
export interface LocalMachine {
  readonly machine: MachinePort;
  readonly streams: Pick<StreamPort, 'freeBytes'>;
}

/** Runs all checks on this machine, according to its provisioning file. Changes nothing. */
export async function checkThisMachine(
  context: CommandContext,
  { machine, streams }: LocalMachine,
): Promise<readonly CheckResult[]> {
  const { files, commands, clock } = context.ports;
  const { provisioning, problem } = await readProvisioning(context);
  const isNode = (await files.stat(LOCK_PATH).catch(() => undefined)) !== undefined;
  const options: CollectOptions = {
    nodeName: provisioning?.nodeName ?? machine.hostname(),
    configuredAddress: provisioning?.address,
    // A machine knows no networks before it belongs to a cluster.
    ...{ families: [], needsWireguard: false },
    ...(await spaceFor(context, machine, isNode)),
    provisioningProblem: problem,
    tpm: probedTpm(provisioning?.tpm, clock),
    allowsCgroupV1: provisioning?.kubelet.failCgroupV1 === false,
    hasStateDisk: provisioning?.stateDisk !== undefined,
    isNode,
    callerClockMs: undefined,
    mayWriteTestFiles: false,
    signal: context.signal,
  };
  const ports = { files, commands, clock, machine, freeBytes: (path: string) => streams.freeBytes(path) };
  return runChecks(MACHINE_CHECKS, await collectMachineFacts(ports, options));
}

/** A node has its bundle already. Another machine needs the space for that of a new cluster, if this machine knows it. */
async function spaceFor(
  context: CommandContext,
  machine: MachinePort,
  isNode: boolean,
): Promise<NeededSpace> {
  if (isNode) return { ...LEAST_SPACE, includesBundle: true };
  const bundle = await findLocalManifest(context, DEFAULT_KUBERNETES_VERSION, machine.architecture());
  return neededSpace(bundle?.manifest, bundle && uploadBytes(bundle.manifest));
}

/** Without a provisioning file, or if it cannot be read, the checks use the hostname and addresses of the machine. */
async function readProvisioning({ ports }: CommandContext): Promise<{
  readonly provisioning?: Provisioning;
  readonly problem?: string;
}> {
  const bytes = await ports.files.read(PROVISIONING_PATH, MAX_PROVISIONING_BYTES).catch(() => undefined);
  if (bytes === undefined) return {};
  try {
    return { provisioning: parseProvisioning(Buffer.from(bytes).toString('utf8')) };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { problem: error.message };
  }
}

function probedTpm(tpm: Provisioning['tpm'] | undefined, clock: Clock): CollectOptions['tpm'] {
  if (tpm === undefined || tpm.kind === 'none') return undefined;
  return { path: tpm.path, findProblem: (signal) => findTpmProblem(tpm, clock, signal) };
}
