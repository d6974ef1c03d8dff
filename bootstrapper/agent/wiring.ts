import type { TreeSnapshot } from '../../internal/supervisor/index.ts';
import type { MachineControlPlaneDriver } from '../controlplane/index.ts';
import type { AgentPorts } from './agent-ports.ts';
import type { OpenNode } from './open-node.ts';

/** What the wiring of each group of runnables starts from. */
export interface Wiring {
  readonly ports: AgentPorts;
  readonly node: OpenNode;
  readonly version: string;
  /** The state of everything that the agent runs. */
  readonly tree: () => TreeSnapshot;
  /** Ends the pauses after failures. */
  readonly retryNow: () => void;
  readonly driver: MachineControlPlaneDriver;
}
