import type { TpmInterface } from './software-tpm.ts';

/** What a local machine is. */
export type MachineType = 'container' | 'vm';

/**
 * What differs between containers and virtual machines. `LocalNode` has what both have: TPM, cgroups, start, stop and power cut.
 * `pids` are the processes in the cgroup of the machine on the host.
 */
export interface MachineDriver {
  readonly limits: MachineLimits;
  readonly tpmInterface: TpmInterface;
  /** Writes the files of the next start. */
  prepare(signal: AbortSignal): Promise<void>;
  /** Connects the machine, which does not run, to the switch. */
  connect(signal: AbortSignal): Promise<void>;
  /** The program that is the machine, and its working directory. */
  program(signal: AbortSignal): Promise<MachineProgram>;
  isRunning(pids: readonly number[]): Promise<boolean>;
  /** Whether the running machine is in the state in which `mini start` leaves it. */
  hasBooted(pids: readonly number[], signal: AbortSignal): Promise<boolean>;
  /** Asks the operating system of the machine to shut down. */
  requestPowerOff(pids: readonly number[], signal: AbortSignal): Promise<void>;
  /** `sha256:…` of the agent's key; undefined until the agent has shown it. */
  agentFingerprint(): Promise<string | undefined>;
  /** The argv that runs a program in the machine. @throws LocalMachineError */
  enter(
    pids: readonly number[],
    program: readonly string[],
    env: Readonly<Record<string, string>>,
  ): Promise<readonly [string, ...string[]]>;
}

/** Time limits of a machine, and how often the host looks. */
interface MachineLimits {
  readonly bootMs: number;
  readonly bootPollMs: number;
  readonly powerOffMs: number;
  /** A machine that still runs is asked again after this time. */
  readonly repeatPowerOffMs: number;
}

/** See `MachineDriver.program`. */
interface MachineProgram {
  readonly argv: readonly string[];
  readonly cwd?: string;
}
