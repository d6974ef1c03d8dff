import { parseManifest } from '../../internal/bundle/index.ts';
import {
  findProblemOf,
  LEAST_SPACE,
  neededSpace,
  type CheckResult,
  type NeededSpace,
} from '../../internal/preflight/index.ts';
import type { Tpm } from '../../internal/tpm/index.ts';
import { familiesOf, nodeSettingsFrom, type Provisioning } from '../../internal/config/index.ts';
import type { InitSpec, PreflightQuery } from '../initserver/index.ts';
import { checkMachine, type PreflightOptions, type PreflightPorts, runPreflight } from './preflight.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import type { StreamPort } from '../../internal/file/index.ts';
import type { MachinePort } from '../../internal/platform/index.ts';

/** The checks of this machine before the agent changes anything. */
export interface MachineChecks {
  /**
   * Before an init.
   * @param databaseBytes Size of the databases that the init restores
   * @throws PreflightError
   */
  checkForInit(spec: InitSpec, databaseBytes: number): Promise<void>;
  /** Before a join; the size of the bundle is not known yet. @throws PreflightError */
  checkForJoin(): Promise<void>;
  /** The result of each check, for an owner before an upload. Changes nothing. */
  report(query: PreflightQuery): Promise<readonly CheckResult[]>;
}

interface ChecksOptions {
  readonly provisioning: Pick<Provisioning, 'address' | 'kubelet' | 'platform' | 'stateDisk' | 'tpm'>;
  /** The TPM of the provisioning, opened. */
  readonly tpm: Pick<Tpm, 'use'> | undefined;
  readonly signal: AbortSignal;
  readonly run?: typeof runPreflight;
  readonly check?: typeof checkMachine;
}

/** Ports (injected dependencies) of the checks of this machine. */
export interface MachineChecksPorts extends Omit<PreflightPorts, 'freeBytes' | 'machine' | 'commands'> {
  readonly machine: MachinePort;
  readonly streams: StreamPort;
  readonly commands: CommandRunner;
}

/**
 * Runs concurrent checks one after the other: each check binds the ports that it tests, so two checks at once
 * would report each other's ports as used.
 */
export function createMachineChecks(
  { files, machine, streams, clock, commands }: MachineChecksPorts,
  { provisioning, tpm, signal, run = runPreflight, check = checkMachine }: ChecksOptions,
): MachineChecks {
  const probe: PreflightPorts = {
    files,
    machine,
    clock,
    freeBytes: (directory) => streams.freeBytes(directory),
  };
  let last: Promise<unknown> = Promise.resolve();
  const afterLast = <T>(work: () => Promise<T>): Promise<T> => {
    const result = last.then(work);
    last = result.catch(() => undefined); // the caller of the other check gets its error
    return result;
  };
  const optionsFor = (
    nodeName: string,
    space: NeededSpace,
    {
      callerClockMs,
      families = [],
      needsWireguard = false,
    }: Partial<Pick<PreflightOptions, 'callerClockMs' | 'families' | 'needsWireguard'>> = {},
  ): PreflightOptions => ({
    ...{ nodeName, ...space, callerClockMs, families, needsWireguard, signal },
    ...(tpm !== undefined &&
      provisioning.tpm.kind !== 'none' && {
        tpm: {
          path: provisioning.tpm.path,
          findProblem: (within: AbortSignal) => findProblemOf(tpm, within),
        },
      }),
    configuredAddress: provisioning.address,
    allowsCgroupV1: provisioning.kubelet.failCgroupV1 === false,
    hasStateDisk: provisioning.stateDisk !== undefined,
  });
  return {
    checkForInit: ({ nodeName, bundleManifest, serviceSubnet, configuration }, databaseBytes) => {
      const space = spaceFor(bundleManifest, { missingBytes: 0, databaseBytes });
      const needsWireguard = nodeSettingsFrom(configuration).networkBackend === 'wireguard';
      const options = optionsFor(nodeName, space, { families: familiesOf(serviceSubnet), needsWireguard });
      return afterLast(() => run(probe, options));
    },
    checkForJoin: () => afterLast(() => run(probe, optionsFor(machine.hostname(), LEAST_SPACE))),
    report: ({ nodeName, bundleManifest, callerNowMs: callerClockMs, ...bytes }) => {
      const space = spaceFor(bundleManifest, bytes);
      const options = optionsFor(nodeName || machine.hostname(), space, { callerClockMs });
      // A local machine uses the clock of its host, so the state of its own time service is irrelevant.
      const checkPorts = provisioning.platform === 'local' ? probe : { ...probe, commands };
      return afterLast(() => check(checkPorts, options));
    },
  };
}

function spaceFor(
  bundleManifest: string,
  { missingBytes, databaseBytes }: Pick<PreflightQuery, 'missingBytes' | 'databaseBytes'>,
): NeededSpace {
  if (bundleManifest === '') return LEAST_SPACE;
  return neededSpace(parseManifest(Buffer.from(bundleManifest, 'utf8')), missingBytes, databaseBytes);
}
