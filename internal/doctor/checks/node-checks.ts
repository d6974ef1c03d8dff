import { formatDuration } from '../../clock/index.ts';
import { plainHost } from '../../endpoint/index.ts';
import { failed, warned, type Observation } from '../../preflight/index.ts';
import { formatBytes } from '../../printable/index.ts';
import type { ClusterFacts, FileSystemFacts, LocalFacts } from '../cluster-facts.ts';
import { judgeMembers, judgePart, notMeasured, percent, type Observe } from '../observe.ts';
import { describeGrowth, growthOfDisk, passesMs } from '../growth.ts';
import {
  GROWTH_WARNING_MS,
  INODES_ERROR_SHARE,
  INODES_WARNING_SHARE,
  SPACE_ERROR_SHARE,
  SPACE_WARNING_SHARE,
} from '../thresholds.ts';

/** Whether each node sends heartbeats. */
export const silent: Observe = (facts) => {
  const threshold = 'sends heartbeats';
  return judgeMembers(facts, threshold, ({ name, health }) => {
    const seen = { subject: name, node: name, threshold };
    if (health === 'healthy') return [{ ...seen, figure: 'sends heartbeats' }];
    if (health === 'silent') {
      const cause = `node ${name} sends no heartbeats`;
      return [{ ...seen, figure: 'no heartbeats', problem: failed(cause) }];
    }
    const cause = `node ${name} is a member and has never sent a heartbeat`;
    return [{ ...seen, figure: 'none yet', problem: warned(cause) }];
  });
};

/** Reports the most severe error of each agent. */
export const lastError: Observe = (facts) => {
  const threshold = 'no error';
  return judgeMembers(facts, threshold, ({ name, lastError: error }) => {
    const cause = error === undefined ? undefined : `node ${name} reports ${error}`;
    const figure = error === undefined ? 'no error' : 'an error';
    return [{ subject: `agent of ${name}`, node: name, figure, threshold, problem: failed(cause) }];
  });
};

/** Whether a part of an agent (a runnable) has ended. */
export const agent: Observe = (facts) => {
  const threshold = 'no part has ended';
  return judgeMembers(facts, threshold, ({ name, deadRunnables }) => {
    const count = deadRunnables.length;
    const figure = count === 0 ? threshold : `${count} ended`;
    const cause = `on node ${name}, parts of the agent have ended: ${deadRunnables.join(', ')}`;
    const problem = warned(count === 0 ? undefined : cause);
    return [{ subject: `agent of ${name}`, node: name, figure, threshold, problem }];
  });
};

/** Judges how the balancer of each node sees the API servers. */
export const balancer: Observe = ({ metrics, records }) => {
  const threshold = 'every API server healthy';
  const addresses = new Map(
    records.ok ? records.value.nodes.map(({ address, name }) => [address, name]) : [],
  );
  return metrics.flatMap(({ node, answer }) =>
    judgePart(answer, { subject: `balancer of ${node}`, threshold, node }, ({ balancer: servers }) => {
      const wrong = servers.filter(({ verdict }) => verdict !== 'healthy');
      const subject = `balancer of ${node}`;
      const figure = `${servers.length - wrong.length} of ${servers.length} healthy`;
      if (wrong.length === 0) return [{ subject, node, figure, threshold }];
      return wrong.map(({ server, verdict }): Observation => {
        const [host = ''] = server.split(/:\d+$/);
        // The finding names the node of the API server, not the node of the balancer. Then diagnose() can attribute it
        // to a failure of the API server.
        const target = addresses.get(plainHost(host));
        const cause = `the balancer of ${node} sees the API server ${server} as ${verdict}`;
        const seen = { subject: `${node} to ${target ?? server}`, figure: verdict, threshold };
        return { ...seen, ...(target !== undefined && { node: target }), problem: warned(cause) };
      });
    }),
  );
};

/** Judges the free space of the file systems that the kubelet watches. */
export const space: Observe = (facts) => {
  const threshold = `at least ${percent(SPACE_WARNING_SHARE)} free; less than ${percent(SPACE_ERROR_SHARE)} is an error`;
  return fileSystems(facts, threshold, ({ availableBytes, capacityBytes }) => ({
    free: availableBytes,
    of: capacityBytes,
    figure: (share) => `${formatBytes(availableBytes)} free (${percent(share)})`,
    limits: { warning: SPACE_WARNING_SHARE, error: SPACE_ERROR_SHARE },
  }));
};

/** Judges when the file systems that the kubelet watches are full at their growth. */
export const growth: Observe = (facts) => {
  const threshold = `less than ${percent(SPACE_ERROR_SHARE)} free in more than ${formatDuration(GROWTH_WARNING_MS)}`;
  return eachFileSystem(facts, threshold, (each, seen) => {
    const seenGrowth = growthOfDisk(facts, seen.node, each);
    if (seenGrowth.kind === 'missing') return notMeasured(seen, `growth not known: ${seenGrowth.why}`);
    if (seenGrowth.kind === 'too-few') return { ...seen, figure: seenGrowth.why };
    const { bytesPerDay, measuredMs } = seenGrowth;
    if (bytesPerDay === 0)
      return { ...seen, figure: `no steady growth, measured over ${formatDuration(measuredMs)}` };
    const leftBytes = each.availableBytes - SPACE_ERROR_SHARE * each.capacityBytes;
    const fullMs = passesMs(facts.takenMs, { leftBytes, bytesPerDay });
    const rate = describeGrowth(seenGrowth);
    // Use that has passed the limit already is judged by the check of free space.
    if (fullMs === undefined) return { ...seen, figure: rate };
    const inMs = fullMs - facts.takenMs;
    const figure = `in ${formatDuration(inMs)}: ${rate}`;
    const cause = `${seen.subject} has less than ${percent(SPACE_ERROR_SHARE)} free ${figure}`;
    return { ...seen, figure, problem: warned(inMs <= GROWTH_WARNING_MS ? cause : undefined) };
  });
};

/** Judges the free inodes of the file systems that the kubelet watches. */
export const inodes: Observe = (facts) => {
  const threshold = `at least ${percent(INODES_WARNING_SHARE)} free; less than ${percent(INODES_ERROR_SHARE)} is an error`;
  return fileSystems(facts, threshold, ({ inodes: all, inodesFree }) =>
    // File systems such as btrfs have no fixed number of inodes, and report 0.
    all === undefined || inodesFree === undefined || all === 0
      ? undefined
      : {
          free: inodesFree,
          of: all,
          figure: (share) => `${inodesFree} inodes free (${percent(share)})`,
          limits: { warning: INODES_WARNING_SHARE, error: INODES_ERROR_SHARE },
        },
  );
};

/**
 * Whether the directories of each node are all encrypted, or all in the clear. A node without any encryption is no
 * problem, because its owner chose that; only the figure shows it. A clear directory beside encrypted directories is a
 * problem, because the owner wanted the node to be encrypted.
 */
export const encryption: Observe = (facts) => {
  const threshold = 'all directories encrypted, or none';
  return judgeMembers(facts, threshold, ({ name, directories = [] }) => {
    const seen = { subject: `disk of ${name}`, node: name, threshold };
    const clear = directories.filter(
      ({ protection }) => protection !== 'encrypted' && protection !== 'memory',
    );
    if (directories.length === 0)
      return [notMeasured(seen, `the agent of ${name} does not report how its directories are protected`)];
    if (clear.length === 0) return [{ ...seen, figure: 'encrypted' }];
    const isAny = directories.some(({ protection }) => protection === 'encrypted');
    const paths = clear.map(({ path }) => path).join(', ');
    const cause = `node ${name} has an encrypted disk, and ${paths} in the clear`;
    return [{ ...seen, figure: 'in the clear', problem: failed(isAny ? cause : undefined) }];
  });
};

interface Free {
  readonly free: number;
  readonly of: number;
  readonly figure: (share: number) => string;
  readonly limits: { readonly warning: number; readonly error: number };
}

function fileSystems(
  facts: ClusterFacts,
  threshold: string,
  read: (fileSystem: FileSystemFacts) => Free | undefined,
): readonly Observation[] {
  return eachFileSystem(facts, threshold, (each, seen) => {
    const found = read(each);
    if (found === undefined) return { ...seen, figure: 'no limit' };
    const share = found.of === 0 ? 0 : found.free / found.of;
    const figure = found.figure(share);
    const cause = `${seen.subject} has ${figure}`;
    const problem =
      share < found.limits.error ? failed(cause) : warned(share < found.limits.warning ? cause : undefined);
    return { ...seen, figure, problem };
  });
}

type SeenFileSystem = Pick<Observation, 'subject' | 'threshold'> & { readonly node: string };

function eachFileSystem(
  { kubelets, local }: ClusterFacts,
  threshold: string,
  judge: (fileSystem: FileSystemFacts, seen: SeenFileSystem) => Observation,
): readonly Observation[] {
  const own = local && { node: local.node, answer: { ok: true as const, value: local } };
  const asked = own === undefined ? kubelets : [own];
  if (asked.length === 0) return [notMeasured({ subject: 'disks', threshold }, 'no kubelet could be asked')];
  return asked.flatMap(({ node, answer }) =>
    judgePart<Pick<LocalFacts, 'fileSystems'>>(
      answer,
      { subject: `disks of ${node}`, threshold, node },
      (value) =>
        value.fileSystems.map((each) => judge(each, { subject: `${each.name} of ${node}`, node, threshold })),
    ),
  );
}
