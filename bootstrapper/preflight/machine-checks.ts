import { parseManifest } from '../../internal/bundle/index.ts';
import type { CheckResult } from '../../internal/preflight/index.ts';
import type { Provisioning } from '../../internal/config/index.ts';
import type { InitSpec, PreflightQuery } from '../initserver/index.ts';
import { checkMachine, type PreflightOptions, type PreflightPorts, runPreflight } from './preflight.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import type { StreamPort } from '../../internal/file/index.ts';
import type { MachinePort } from '../../internal/platform/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';

/** Room beside the bundle itself: unpacked images, etcd, logs. */
const HEADROOM_BYTES = 1024 ** 3;

/** The checks before anything changes. */
export interface MachineChecks {
  /** For what an owner asks of this machine. @throws PreflightError */
  checkForInit(spec: InitSpec): Promise<void>;
  /** Before this machine asks to be let in; what it will need of the bundle nobody has said yet. @throws PreflightError */
  checkForJoin(): Promise<void>;
  /** What each check says, before an owner uploads anything. Changes nothing. */
  report(ask: PreflightQuery): Promise<readonly CheckResult[]>;
}

interface ChecksOptions {
  readonly provisioning: Pick<Provisioning, 'address' | 'kubelet' | 'platform'>;
  readonly signal: AbortSignal;
  readonly run?: typeof runPreflight;
  readonly check?: typeof checkMachine;
}

export interface MachineChecksPorts extends Omit<PreflightPorts, 'freeBytes' | 'machine' | 'commands'> {
  readonly machine: MachinePort;
  readonly streams: StreamPort;
  readonly commands: CommandRunner;
}

type Needed = PreflightOptions['neededBytes'];

/** One at a time: each binds the ports that it looks at, and two would find each other's. */
export function createMachineChecks(
  { files, machine, streams, clock, commands }: MachineChecksPorts,
  { provisioning, signal, run = runPreflight, check = checkMachine }: ChecksOptions,
): MachineChecks {
  const probe: PreflightPorts = { files, machine, clock, freeBytes: (folder) => streams.freeBytes(folder) };
  let before: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const mine = before.then(work);
    before = mine.catch(() => undefined); // whoever asked is told
    return mine;
  };
  const optionsFor = (nodeName: string, needed: Needed, askerMs?: number): PreflightOptions => ({
    ...{ nodeName, neededBytes: needed, callerClockMs: askerMs, signal },
    configuredAddress: provisioning.address,
    allowsCgroupV1: provisioning.kubelet.failCgroupV1 === false,
  });
  return {
    checkForInit: ({ nodeName, bundleManifest }) =>
      inTurn(() => run(probe, optionsFor(nodeName, neededFor(bundleManifest)))),
    checkForJoin: () => inTurn(() => run(probe, optionsFor(machine.hostname(), neededFor('')))),
    report: ({ nodeName, bundleManifest, missingBytes, callerNowMs: askerMs }) => {
      const needed = neededFor(bundleManifest, missingBytes);
      const options = optionsFor(nodeName || machine.hostname(), needed, askerMs);
      // The clock of a local machine is its host's: a time service of its own would say nothing.
      const asked = provisioning.platform === 'local' ? probe : { ...probe, commands };
      return inTurn(() => check(asked, options));
    },
  };
}

/** @param missingBytes of the components that are still to be uploaded */
function neededFor(bundleManifest: string, missingBytes = 0): Needed {
  if (bundleManifest === '')
    return { [AGENT_PATHS.state]: HEADROOM_BYTES, [AGENT_PATHS.images]: HEADROOM_BYTES };
  const { components } = parseManifest(Buffer.from(bundleManifest, 'utf8'));
  const bytesOf = (of: readonly { readonly sizeBytes: number }[]): number =>
    of.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  return {
    [AGENT_PATHS.state]: missingBytes + bytesOf(components) + HEADROOM_BYTES,
    // Images are kept there packed and unpacked, and unpacked they are four times as large.
    [AGENT_PATHS.images]: 6 * bytesOf(components.filter(({ kind }) => kind === 'image')),
  };
}
