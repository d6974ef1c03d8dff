import { childSignal, untilAborted } from '../../internal/cleanup/index.ts';
import { findCoded } from '../../internal/errors/index.ts';
import { type Runnable, supervise } from '../../internal/supervisor/index.ts';
import { type Enrolment, untilFileChanges } from '../enrolment/index.ts';
import type { Membership } from '../membership/index.ts';
import { refuseSingleEtcd } from '../consensus/index.ts';
import type { AgentOptions, AgentPorts } from './agent-ports.ts';
import { openNode } from './open-node.ts';
import { recoveryRunnable, runPendingRecovery } from '../recovery/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';
import { resetRunnable, runPendingReset } from '../reset/index.ts';
import { createRunnables } from './runnables.ts';

const GRACE_MS = 10_000;

/**
 * Runs the agent: enrolment once, then the workers of this machine's roles. Resolves when its signal fires;
 * rejects when enrolment failed in a way that a restart may solve.
 */
export async function runAgent(ports: AgentPorts, options: AgentOptions): Promise<void> {
  const { log, clock, random } = ports;
  const { provisioning, version } = options;
  using run = childSignal(options.signal);
  const outcome = await runPendingReset(ports, provisioning, run.signal);
  if (outcome === 'restarting') return await untilAborted(run.signal);
  await refuseSingleEtcd(ports.files, AGENT_PATHS.state);
  await runPendingRecovery(ports, run.signal);
  const node = await openNode(ports, options, run.signal);
  const end = (reason: unknown): void => run.abort(reason);
  const all: Readonly<Record<string, Runnable>> = {
    enrolment: enrolmentRunnable(node.entry.enrolment, ports, end),
    reset: resetRunnable({ orders: node.orders.reset, clock }, end),
    recovery: recoveryRunnable({ orders: node.orders.recovery, clock }, end),
    ...createRunnables({
      ...{ ports, node, version },
      tree: () => supervision.tree(),
      retryNow: () => supervision.retryNow(),
    }),
  };
  const root: Runnable = async (scope) => {
    for (const [name, runnable] of Object.entries(all)) scope.run(name, runnable);
    scope.healthy();
    await options.onReady(`fingerprint ${node.machine.identity.fingerprint}`);
    await untilAborted(scope.signal);
  };
  const supervision = supervise({ root, log, clock, random, graceMs: GRACE_MS, signal: run.signal });
  await supervision.finished;
  if (!options.signal.aborted && run.signal.aborted) throw run.signal.reason;
}

/**
 * After a retryable failure the agent ends, and systemd starts it again. After a final failure the agent
 * keeps running to report the reason, until the file that caused the failure has changed.
 */
function enrolmentRunnable(
  enrolment: Enrolment<Membership>,
  ports: AgentPorts,
  end: (reason: unknown) => void,
): Runnable {
  return async (scope) => {
    scope.healthy();
    await enrolment.run(scope.signal);
    try {
      await enrolment.finished(scope.signal);
    } catch (error) {
      scope.signal.throwIfAborted();
      const coded = findCoded(error);
      if (coded?.retryable === false) {
        scope.waiting(`an operator: ${coded.message}`);
        await untilFileChanges(ports, coded, scope.signal);
      }
      end(error);
      scope.signal.throwIfAborted();
    }
    scope.done();
  };
}
