import { childSignal, untilAborted } from '../../internal/cleanup/index.ts';
import type { CodedError } from '../../internal/errors/index.ts';
import { currentValue, EventValue, type Readable, when } from '../../internal/event/index.ts';
import { type Runnable, supervise } from '../../internal/supervisor/index.ts';
import { refuseSingleEtcd } from '../consensus/index.ts';
import { enrolmentRunnable } from '../enrolment/index.ts';
import { unitStatusRunnable } from '../joinclient/index.ts';
import { isShareMoved } from '../disk/index.ts';
import { AGENT_PATHS, createNodeState } from '../nodestate/index.ts';
import { runPendingRecovery } from '../recovery/index.ts';
import { removalRunnable, runRemoved } from '../removal/index.ts';
import { rollbackRunnable } from '../rollback/index.ts';
import { runPendingReset } from '../reset/index.ts';
import type { AgentOptions, AgentPorts } from './agent-ports.ts';
import { entryRunnables } from './entry-runnables.ts';
import { memberRunnables } from './member-runnables.ts';
import type { Agent } from './agent-parts.ts';
import { openAgent } from './open-agent.ts';
import { openProvisionedDisk, resetDiskOf } from './statedisk/open-state-disk.ts';
import { operatorRunnables } from './operator-runnables.ts';
import { workloadRunnables } from './workload-runnables.ts';

const GRACE_MS = 10_000;
/**
 * After an order to reset or to recover, the agent ends. It waits this long first, so that the response reaches the
 * caller of the order.
 */
const RESPONSE_MS = 1_000;

/**
 * Runs the agent: enrolment once, then the workers of this machine's roles. Resolves when its signal fires;
 * rejects when enrolment failed in a way that a restart may solve.
 * @returns 'start-again': this process has held keys of the state disk; the caller must replace it by a new program, which has none
 */
export async function runAgent(ports: AgentPorts, options: AgentOptions): Promise<'ended' | 'start-again'> {
  using run = childSignal(options.signal);
  if (await openProvisionedDisk(ports, { ...options, signal: run.signal })) return 'start-again';
  return await runOnDisk(ports, options, run);
}

/** Runs the agent while the state disk, if there is one, is open. */
async function runOnDisk(
  ports: AgentPorts,
  options: AgentOptions,
  run: AbortController,
): ReturnType<typeof runAgent> {
  const { signal } = run;
  const stateDisk = resetDiskOf(ports, { ...options, signal });
  const outcome = await runPendingReset(ports, { ...options, stateDisk, signal });
  if (outcome === 'restarting') return await untilAborted(signal);
  const removal = await createNodeState(ports.files).removed.load();
  if (removal !== undefined) {
    await runRemoved(ports, removal, { ...options, signal });
    return 'ended';
  }
  await refuseSingleEtcd(ports.files, AGENT_PATHS.state);
  await runPendingRecovery(ports, signal);
  const agent = await openAgent(ports, {
    ...{ ...options, signal },
    tree: () => supervision.tree(),
    retryNow: () => supervision.retryNow(),
    end: (reason) => run.abort(reason),
  });
  const runnables = createRunnables(agent);
  const root: Runnable = async (scope) => {
    const isReady = new EventValue<boolean>();
    const isMember = () => currentValue(agent.reads.clusterMembership) !== undefined;
    const unitstatus = unitStatusRunnable({ ...agent, isReady, isMember, onStatus: options.onStatus });
    for (const [name, runnable] of Object.entries({ ...runnables, unitstatus })) scope.run(name, runnable);
    scope.healthy();
    await options.onReady(`fingerprint ${agent.fingerprint}`);
    isReady.set(true);
    await untilAborted(scope.signal);
  };
  const supervision = supervise({ ...ports, root, graceMs: GRACE_MS, signal });
  await supervision.finished;
  if (options.signal.aborted || !signal.aborted) return 'ended';
  if (isShareMoved(signal.reason)) return 'start-again';
  throw signal.reason;
}

/**
 * Everything that the agent runs, by the name that status, logs and metrics show. Only the functions that are
 * called here decide which worker writes which value.
 * @throws TypeError when a value has no writer, or two
 */
function createRunnables(agent: Agent): Readonly<Record<string, Runnable>> {
  const runnables = {
    enrolment: enrolmentRunnable(agent),
    reset: orderRunnable('reset order', agent.resetOrders, agent),
    recovery: orderRunnable('recovery order', agent.recovery, agent),
    removal: removalRunnable(agent),
    rollback: rollbackRunnable(agent),
    ...entryRunnables(agent),
    ...memberRunnables(agent),
    ...operatorRunnables(agent),
    ...workloadRunnables(agent),
  };
  const [unclaimed] = agent.valueStore.unclaimed;
  if (unclaimed !== undefined) throw new TypeError(`value ${unclaimed} has no writer`);
  return runnables;
}

/**
 * Ends the agent once an order (a reset or a recovery) is on disk. systemd restarts the agent, which then
 * carries out the order first.
 */
function orderRunnable(
  name: string,
  { ordered, reason }: { readonly ordered: Readable<boolean>; readonly reason: CodedError },
  { clock, end }: Agent,
): Runnable {
  return async (scope) => {
    scope.healthy();
    scope.waiting(name);
    await when(ordered, (isOrdered) => isOrdered, scope.signal);
    scope.waiting('response to reach the caller');
    await clock.sleep(RESPONSE_MS, scope.signal);
    end(reason);
    scope.signal.throwIfAborted();
  };
}
