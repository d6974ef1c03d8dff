import {
  failed,
  fixOf,
  preflightErrors,
  type Observation,
  type PreflightErrorCode,
} from '../../preflight/index.ts';
import type { ClusterFacts, MachineFacts, NodeFacts } from '../cluster-facts.ts';
import { judgeMembers, notMeasured } from '../observe.ts';
import { ETCDS } from './etcd-checks.ts';

/** The code with which agents name members that they know as removed (bootstrapper/removedmachines). */
const UNMERGED = 'doctor-removal-unmerged';

type JudgeMachine = (
  machine: MachineFacts,
  seen: Pick<Observation, 'threshold'> & { readonly node: string },
) => readonly Observation[];

/**
 * Judges what the agent of each node finds wrong on its own machine. Ignores the report of a silent node, because it is
 * outdated.
 */
function judgeMachines(
  facts: ClusterFacts,
  of: { readonly what: string; readonly threshold: string },
  judge: JudgeMachine,
): readonly Observation[] {
  const { what, threshold } = of;
  return judgeMembers(facts, threshold, ({ name, health, machine }: NodeFacts) => {
    if (health !== 'healthy') return [];
    const subject = `${what} of ${name}`;
    if (machine === undefined)
      return [notMeasured({ subject, node: name, threshold }, `the agent of ${name} does not report it`)];
    return judge(machine, { node: name, threshold });
  });
}

/** Whether the services run that every node needs. Another check, doctor-etcd-member, reports etcd. */
export const service = (facts: ClusterFacts): readonly Observation[] =>
  judgeMachines(facts, { what: 'services', threshold: 'run' }, ({ services }, seen) => {
    const { node } = seen;
    const failing = services.filter(({ name }) => !ETCDS.some(({ subject }) => subject === name));
    if (failing.length === 0) return [{ subject: `services of ${node}`, figure: 'run', ...seen }];
    return failing.map(({ name, why }) => {
      const problem = failed(`the ${name} of ${node} ${why}`);
      return { subject: `${name} of ${node}`, figure: 'is not well', ...seen, problem };
    });
  });

/** Whether the settings of each machine are as a node needs them: checks of `cluster preflight`, which agents repeat. */
export const machine = (facts: ClusterFacts): readonly Observation[] =>
  judgeMachines(facts, { what: 'settings', threshold: 'as a node needs them' }, (found, seen) => {
    const { node } = seen;
    const problems = found.problems.filter(({ code }) => code !== UNMERGED);
    if (problems.length === 0) return [{ subject: `settings of ${node}`, figure: 'as needed', ...seen }];
    return problems.map((each) => judgeUnmet(each, seen));
  });

/**
 * Whether a node knows that a member was removed before the cluster was restored from a backup that is older than the removal. The
 * name comes from the node, so only that of a member is used.
 */
export const unmerged = (facts: ClusterFacts): readonly Observation[] =>
  judgeMachines(facts, { what: 'removals known to', threshold: 'of no member' }, (found, seen) => {
    const { node, threshold } = seen;
    const members = facts.records.ok ? facts.records.value.nodes.map(({ name }) => name) : [];
    const named = found.problems.filter(({ code }) => code === UNMERGED).map(({ subject }) => subject);
    const removed = members.filter((name) => named.includes(name));
    const subject = `removals known to ${node}`;
    if (removed.length === 0) return [{ subject, figure: 'of no member', node, threshold }];
    return removed.map((name) => ({
      ...{ subject, figure: `of the member ${name}`, node, threshold },
      problem: {
        ...{ status: 'warning', cause: `${node} knows that ${name} was removed before the restore` },
        fix: `If ${name} must not be a member, run \`cluster node remove ${name} --lost\`.`,
      },
    }));
  });

/** The result for a check of `cluster preflight` that a machine does not pass, with the fix of that check. */
export function judgeUnmet(
  { code, subject, cause, isWarning }: MachineFacts['problems'][number],
  seen: { readonly node: string; readonly threshold: string },
): Observation {
  return {
    ...{ subject: `${subject} of ${seen.node}`, figure: 'not as needed', ...seen },
    problem: {
      ...{ status: isWarning ? 'warning' : 'failed', cause: `on node ${seen.node}, ${cause}` },
      ...(isPreflightCode(code) && { fix: fixOf(code) }),
    },
  };
}

/** A newer agent may have checks that this program does not know. */
function isPreflightCode(code: string): code is PreflightErrorCode {
  return Object.hasOwn(preflightErrors, code);
}
