import type { Clock } from '../../internal/clock/index.ts';
import type { Provisioning } from '../../internal/config/index.ts';
import { childSignal } from '../../internal/cleanup/index.ts';
import { CodedError } from '../../internal/errors/index.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import type { AppendPort, FilePort, StreamPort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { MachinePort, UnitPort } from '../../internal/platform/index.ts';
import { supervise, type Runnable, type Scope, type TreeSnapshot } from '../../internal/supervisor/index.ts';
import type { Enrolment, Membership } from '../enrolment/index.ts';
import { openNode } from './open-node.ts';
import { createRunnables } from './runnables.ts';

const GRACE_MS = 10_000;

export interface AgentPorts {
  readonly files: FilePort & AppendPort;
  readonly streams: StreamPort;
  readonly commands: CommandRunner;
  readonly units: UnitPort;
  readonly machine: MachinePort;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
}

export interface AgentOptions {
  readonly provisioning: Provisioning;
  readonly version: string;
  /** The tree is up: whoever waits for the agent may go on. */
  readonly onReady: () => Promise<void>;
  readonly signal: AbortSignal;
}

/**
 * The agent: enrolment once, then the roles of this machine for its whole life. Resolves when its signal fired; rejects
 * when the enrolment failed in a way that another start may mend.
 */
export async function runAgent(ports: AgentPorts, options: AgentOptions): Promise<void> {
  const { log, clock, random } = ports;
  using life = childSignal(options.signal);
  const node = await openNode(ports, options, life.signal);
  const tree = { of: (): TreeSnapshot => [] };
  const runnables = createRunnables({ ports, node, version: options.version, tree: () => tree.of() });
  const enrolment = enrolmentRunnable(node.enrolment, (reason) => life.abort(reason));
  const root: Runnable = async (scope) => {
    for (const [name, runnable] of Object.entries({ enrolment, ...runnables })) scope.run(name, runnable);
    scope.healthy();
    await options.onReady();
    await new Promise<void>((resolve) =>
      scope.signal.addEventListener('abort', () => resolve(), { once: true }),
    );
    scope.signal.throwIfAborted();
  };
  const supervision = supervise({ root, log, clock, random, graceMs: GRACE_MS, signal: life.signal });
  tree.of = () => supervision.tree();
  await supervision.finished;
  if (!options.signal.aborted && life.signal.aborted) throw life.signal.reason;
}

/** After Failed(retryable) the agent ends and systemd starts it again; after Failed(final) it stays to answer why. */
function enrolmentRunnable(enrolment: Enrolment<Membership>, end: (reason: unknown) => void): Runnable {
  return async (scope: Scope) => {
    scope.healthy();
    await enrolment.run(scope.signal);
    try {
      await enrolment.finished(scope.signal);
    } catch (error) {
      scope.signal.throwIfAborted();
      if (error instanceof CodedError && !error.retryable) {
        scope.waiting(`an operator: ${error.message}`);
        await new Promise<void>((resolve) =>
          scope.signal.addEventListener('abort', () => resolve(), { once: true }),
        );
      } else end(error);
      scope.signal.throwIfAborted();
    }
    scope.done();
  };
}
