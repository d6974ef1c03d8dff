import { parseRecipient } from '../../../internal/backup/index.ts';
import { describeError, type CodedError } from '../../../internal/errors/index.ts';
import type { Secret } from '../../../internal/secret/index.ts';
import { createConsoleChallenge, ownersNeeded } from '../../../internal/statedisk/index.ts';
import { createMachineEvidence, type MachineEvidence } from '../../attest/index.ts';
import { readLockedDisk, type DiskPorts, type DiskSettings } from '../../disk/index.ts';
import {
  challengeLines,
  failureText,
  findCodeSources,
  openConsole,
  printOnConsole,
  serveLockedDisk,
  type ConsoleEntry,
} from '../../machineservice/index.ts';
import { loadMachineIdentity, type MachineIdentity } from '../../nodestate/index.ts';
import type { AgentOptions, AgentPorts } from '../agent-ports.ts';
import { LOCKED_PATHS } from './locked-files.ts';
import { ownerKeysOf } from '../open-machine.ts';

/** A state disk that does not open. */
export interface ClosedDisk {
  readonly diskPorts: DiskPorts;
  readonly settings: DiskSettings;
  /** Why it does not open now. */
  readonly reason: () => CodedError;
}

/** A machine without its disk: a key that is as old as the wait for the disk, and the evidence of its TPM. */
export interface ClosedMachine {
  readonly identity: MachineIdentity;
  readonly evidence: MachineEvidence;
}

/** Creates a machine key for this time, because the permanent key is on the closed disk. Needs the directory of `LOCKED_PATHS`. */
export async function openClosedMachine(
  ports: AgentPorts,
  { provisioning }: Pick<AgentOptions, 'provisioning'>,
  { tpm }: Pick<DiskPorts, 'tpm'>,
): Promise<ClosedMachine> {
  const identity = await loadMachineIdentity(ports.files, LOCKED_PATHS);
  const evidence = createMachineEvidence({
    ...{ ...ports, provisioning, tpm, machineKeyPem: identity.keyPem },
    keySecretPath: LOCKED_PATHS.keySecret,
    // The state of the node lock is on the closed disk and unknown, so the lock register (a PCR) keeps its value of the
    // boot.
    mirrorLock: () => Promise.resolve(),
  });
  return { identity, evidence };
}

/** The init port and the console of a machine whose disk is closed. */
export interface ClosedDiskService {
  /** Shows on the console why the disk is closed now. */
  show(): Promise<void>;
  /** Lets owners recover the disk until they have. */
  serve(recover: (recoveryKey: Secret<Uint8Array>) => Promise<void>, signal: AbortSignal): Promise<void>;
}

/** Prepares the init port and the console of a machine whose disk is closed. */
export function createClosedDiskService(
  ports: AgentPorts,
  { provisioning, agentVersion, signal }: Pick<AgentOptions, 'provisioning' | 'agentVersion' | 'signal'>,
  { disk, machine: closed }: { readonly disk: ClosedDisk; readonly machine: ClosedMachine },
): ClosedDiskService {
  const { clock, machine, log } = ports;
  const { diskPorts, settings } = disk;
  const { identity, evidence } = closed;
  const { fingerprint } = identity;
  let lines: readonly string[] = [];
  const print = (alive: AbortSignal): Promise<void> => {
    const { code, fix } = disk.reason();
    const failure = { code, message: describeError(disk.reason()), fix };
    return printOnConsole(ports, failureText(failure, fingerprint, lines), { log, signal: alive });
  };
  const consolePorts = {
    ...{ clock, log: diskPorts.log },
    find: (alive: AbortSignal) => findConsoleEntry(ports, disk, alive),
    print: (more: readonly string[], alive: AbortSignal) => {
      lines = more;
      return print(alive);
    },
  };
  return {
    show: () => print(signal),
    serve: (recover, alive) =>
      serveLockedDisk(
        {
          ...{ clock, machine, evidence, agentVersion, fingerprint, recover, device: settings.device },
          ownerKeys: ownerKeysOf(provisioning),
          log: diskPorts.log,
          openConsole: (opening) => openConsole(consolePorts, opening),
          read: (reading) => readLockedDisk(diskPorts, settings, reading),
          get reason() {
            return disk.reason();
          },
        },
        alive,
      ),
  };
}

/** The way in at the console; undefined if the record of the disk has no data for it. */
async function findConsoleEntry(
  ports: AgentPorts,
  { diskPorts, settings, reason }: ClosedDisk,
  signal: AbortSignal,
): Promise<ConsoleEntry | undefined> {
  const locked = await readLockedDisk(diskPorts, settings, signal);
  const { uuid, consoleRecovery: recovery } = locked;
  if (recovery === undefined) return undefined;
  const recipients = settings.recipients.map(parseRecipient);
  const challenge = createConsoleChallenge({ uuid, recovery, recipients });
  const sources = await findCodeSources(ports, LOCKED_PATHS.code, signal);
  const pipe = sources.areConsoles ? undefined : LOCKED_PATHS.code;
  const owners = ownersNeeded(locked.recovery);
  const lines = challengeLines(reason(), { challenge: challenge.text, pipe, owners });
  return { commands: ports.commands, sources, challenge, lines };
}
