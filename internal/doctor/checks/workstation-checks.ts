import { formatDuration, formatExpiry } from '../../clock/index.ts';
import { failed, warned, type Observation } from '../../preflight/index.ts';
import { judgePart, type Observe } from '../observe.ts';
import { CREDENTIALS_WARNING_MS } from '../thresholds.ts';

/** Judges when the credentials of the operator expire. */
export const credentials: Observe = ({ credentials: own, takenMs }) => {
  if (own === undefined) return [];
  const { certificateMs, kubeconfigMs } = own;
  const threshold = `expires in more than ${formatDuration(CREDENTIALS_WARNING_MS)}`;
  const judge = (subject: string, endMs: number): Observation => {
    const figure = formatExpiry(endMs, takenMs);
    const cause = `the ${subject} ${figure}`;
    const isNear = endMs - takenMs <= CREDENTIALS_WARNING_MS;
    const problem = endMs <= takenMs ? failed(cause) : warned(isNear ? cause : undefined);
    return { subject, figure, threshold, problem };
  };
  return [
    judge('certificate for curators', certificateMs),
    ...(kubeconfigMs === undefined ? [] : [judge('kubeconfig', kubeconfigMs)]),
  ];
};

/** Judges whether the workstation finds the host names that the workspace uses. */
export const hostName: Observe = ({ hostNames }) => {
  const threshold = 'resolves';
  if (hostNames === undefined) return [];
  if (hostNames.length === 0) return [{ subject: 'host names', figure: 'none used', threshold }];
  return hostNames.map(({ name, answer }) => {
    const figure = answer.ok ? answer.value.addresses.join(', ') : 'does not resolve';
    const cause = `this workstation does not resolve ${name}: ${answer.ok ? '' : answer.error}`;
    const problem = answer.ok ? undefined : failed(cause);
    return { subject: `host name ${name}`, figure, threshold, problem };
  });
};

/** Judges whether the server that the kubeconfig names serves: kubectl and helm use only this one. */
export const kubeconfig: Observe = ({ kubeconfig: found }) => {
  const threshold = 'serves';
  if (found === undefined) return [];
  const { server, answer } = found;
  const cause = `the server of the kubeconfig, ${server}, does not serve: ${answer.ok ? '' : answer.error}`;
  const figure = answer.ok ? 'serves' : 'does not serve';
  const problem = failed(answer.ok ? undefined : cause);
  return [{ subject: `server of the kubeconfig, ${server}`, figure, threshold, problem }];
};

/** Judges how far the versions of the CLI, the agents, the API servers and the kubelets differ. */
export const skew: Observe = (facts) => [...agentSkew(facts), ...kubeletSkew(facts)];

const agentSkew: Observe = ({ records, cliVersion }) => {
  const threshold = 'at most 1 minor version from the CLI';
  return judgePart(records, { subject: 'agents', threshold }, ({ nodes }) =>
    nodes
      .filter(({ agentVersion }) => agentVersion !== '')
      .map(({ name, agentVersion }) => {
        const apart = Math.abs(minorOf(agentVersion) - minorOf(cliVersion));
        const cause = `the agent of ${name} has version ${agentVersion}, this program ${cliVersion}`;
        const problem = failed(apart > 1 ? cause : undefined);
        return { subject: `agent of ${name}`, node: name, figure: agentVersion, threshold, problem };
      }),
  );
};

const MAX_KUBELET_LAG = 3;

const kubeletSkew: Observe = ({ apiServers, kubernetes }) => {
  const threshold = `not newer than an API server, at most ${MAX_KUBELET_LAG} minor versions older`;
  const servers = apiServers.flatMap(({ answer }) => (answer.ok ? [answer.value.version] : []));
  return judgePart(kubernetes, { subject: 'kubelets', threshold }, ({ nodes }) =>
    nodes.map(({ name, kubeletVersion: figure }) => {
      const seen = { subject: `kubelet of ${name}`, node: name, figure, threshold };
      const lags = servers.map((server) => minorOf(server) - minorOf(figure));
      const wrong = lags.findIndex((lag) => lag < 0 || lag > MAX_KUBELET_LAG);
      if (wrong < 0) return seen;
      const cause = `the kubelet of ${name} has version ${figure}, an API server ${servers[wrong]}`;
      return { ...seen, problem: failed(cause) };
    }),
  );
};

/** Major and minor version as one number that grows by 1 with each minor; NaN for text without a version. */
function minorOf(version: string): number {
  const [, major, minor] = /^v?(\d+)\.(\d+)\./.exec(version) ?? [];
  return Number(major) * 1_000 + Number(minor);
}
