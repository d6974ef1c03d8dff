import type { Provisioning } from '../../internal/config/index.ts';
import type { AppendPort, FilePort, KernelFilePort, StreamPort } from '../../internal/file/index.ts';
import type { ProcessUsage } from '../../internal/metrics/index.ts';
import type { LowPriority, MachinePort, SystemPorts } from '../../internal/platform/index.ts';
import type { LogRing } from '../nodestream/index.ts';

/** Ports (injected dependencies) to everything outside the agent. */
export interface AgentPorts extends SystemPorts {
  readonly files: FilePort & AppendPort;
  /** Attribute files of the kernel, through which a confidential processor (SNP, TDX) issues reports. */
  readonly kernel: KernelFilePort;
  readonly streams: StreamPort;
  readonly machine: MachinePort;
  readonly random: () => number;
  /** The newest log lines of the agent, which operators can read. */
  readonly ring: LogRing;
  readonly usage: () => ProcessUsage;
  /** The priority of this process while background work runs. */
  readonly lowPriority: Pick<LowPriority, 'begin'>;
  /** Environment variables of this process. */
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** Inputs of `runAgent`. */
export interface AgentOptions {
  readonly provisioning: Provisioning;
  /** Version of this agent. */
  readonly agentVersion: string;
  /** Called when all runnables have been started, with one line for `systemctl status`. */
  readonly onReady: (status: string) => Promise<void>;
  /** Called afterwards with each new line. */
  readonly onStatus: (status: string) => Promise<void>;
  /**
   * Called repeatedly while the start takes long, with one line for `systemctl status`. The next call follows within
   * `durationMs`.
   */
  readonly onSlowStart: (status: string, durationMs: number) => Promise<void>;
  readonly signal: AbortSignal;
}
