import type { TreeSnapshot } from '../../internal/supervisor/index.ts';
import type { MachineControlPlaneDriver } from '../controlplane/index.ts';
import type { AgentPorts } from './agent-ports.ts';
import type { OpenNode } from './open-node.ts';

/** What every group of runnables is wired from. */
export interface Wiring {
  readonly ports: AgentPorts;
  readonly node: OpenNode;
  readonly version: string;
  /** Snapshot of the state of everything that the agent runs. */
  readonly tree: () => TreeSnapshot;
  /** Ends the pauses after failures, so that failed work is retried at once. */
  readonly retryNow: () => void;
  readonly driver: MachineControlPlaneDriver;
}
