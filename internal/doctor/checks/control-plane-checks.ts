import { failed, type Observation } from '../../preflight/index.ts';
import type { FactsPart } from '../cluster-facts.ts';
import { judgeMembers, notMeasured, type Observe } from '../observe.ts';

type Endpoint = { readonly node: string; readonly answer: FactsPart<unknown> };

function judgeEndpoints(
  endpoints: readonly Endpoint[],
  what: string,
  of: {
    readonly describe?: (node: string) => string;
    /** What else is known about an endpoint that does not serve. */
    readonly explain?: (node: string) => string | undefined;
  } = {},
): readonly Observation[] {
  const threshold = 'serves';
  if (endpoints.length === 0)
    return [notMeasured({ subject: `${what}s`, threshold }, 'no control plane is known')];
  return endpoints.map(({ node, answer }) => {
    const why = of.explain?.(node);
    const more = why === undefined ? '' : ` (its agent: ${why})`;
    const cause = answer.ok ? undefined : `the ${what} of ${node} does not serve: ${answer.error}${more}`;
    const figure = answer.ok ? (of.describe?.(node) ?? 'serves') : 'does not serve';
    return { subject: `${what} of ${node}`, node, figure, threshold, problem: failed(cause) };
  });
}

/** Whether the curator of each control plane serves the workstation. */
export const curator: Observe = ({ curators }) => judgeEndpoints(curators, 'curator');

/** Whether the join service of each control plane accepts connections of the workstation. */
export const joinService: Observe = ({ joinServices }) =>
  joinServices === undefined ? [] : judgeEndpoints(joinServices, 'join service');

/** Whether the API server of each control plane serves the workstation. */
export const apiServer: Observe = ({ apiServers, local, records }) => {
  if (local?.isControlPlane === false) return [];
  const versions = new Map(
    apiServers.flatMap(({ node, answer }) => (answer.ok ? [[node, answer.value.version] as const] : [])),
  );
  const nodes = records.ok ? records.value.nodes.filter(({ health }) => health === 'healthy') : [];
  return judgeEndpoints(apiServers, 'API server', {
    describe: (node) => `serves ${versions.get(node) ?? ''}`.trim(),
    explain: (node) =>
      nodes
        .find(({ name }) => name === node)
        ?.componentsNotReady.find(({ name }) => name === 'kube-apiserver')?.why,
  });
};

/**
 * Judges the components of the control plane as the agents see them. Ignores the report of a silent node, because it is
 * outdated.
 */
export const component: Observe = (facts) => {
  const threshold = 'every component ready';
  return judgeMembers(facts, threshold, ({ name, isControlPlane, health, componentsNotReady }) => {
    if (!isControlPlane || health !== 'healthy') return [];
    if (componentsNotReady.length === 0)
      return [{ subject: `control plane of ${name}`, node: name, figure: 'all ready', threshold }];
    return componentsNotReady.map((part) => ({
      ...{ subject: `${part.name} of ${name}`, node: name, figure: 'not ready', threshold },
      problem: failed(`${part.name} on node ${name}: ${part.why}`),
    }));
  });
};

/**
 * The error code of an operator without a kubeconfig. Only owners have a kubeconfig, so this is no problem of the
 * cluster.
 */
const NO_KUBECONFIG = 'cluster-no-kubeconfig';

/** Whether the Kubernetes API could be read. */
export const kubernetes: Observe = ({ kubernetes: part }) => {
  const unread = { subject: 'Kubernetes API', threshold: 'read' };
  if (!part.ok && part.codes.includes(NO_KUBECONFIG)) return [notMeasured(unread, part.error)];
  const cause = part.ok ? undefined : `the Kubernetes API could not be read: ${part.error}`;
  const figure = part.ok ? 'read' : 'not read';
  return [{ ...unread, figure, problem: failed(cause) }];
};
