import { formatBytes } from '../printable/index.ts';
import { ETCDS } from './checks/etcd-checks.ts';
import type { ClusterFacts, RecordFacts } from './cluster-facts.ts';
import type { Ending, Endings } from './ending.ts';
import { describeGrowth, growthOfDisk, growthOn, passesMs, type SeenGrowth } from './growth.ts';
import { percent } from './observe.ts';
import { DATABASE_WARNING_SHARE, SPACE_ERROR_SHARE, SPACE_WARNING_SHARE } from './thresholds.ts';

/** A limit of a disk or a database, and how much is left until it is passed. */
interface Limit {
  readonly subject: string;
  readonly leftBytes: number;
}

interface Growing {
  readonly subject: string;
  readonly usedBytes: number;
  readonly sizeBytes: number;
  readonly limits: readonly Limit[];
  readonly renewal: string;
}

const NO_KUBELET = { subject: 'growth of disks', error: 'no kubelet could be asked' };

/**
 * When disks and databases pass the limits of the checks at their growth of the last days. What has passed a limit already is a problem today,
 * so `diagnose()` names it and this does not.
 */
export function growthEndings(facts: ClusterFacts): Endings {
  const parts = [...diskGrowths(facts), ...etcdGrowths(facts)];
  return {
    endings: parts.flatMap(({ endings }) => endings),
    unknown: parts.flatMap(({ unknown }) => unknown),
  };
}

function diskGrowths(facts: ClusterFacts): readonly Endings[] {
  if (facts.kubelets.length === 0) return [{ endings: [], unknown: [NO_KUBELET] }];
  return facts.kubelets.flatMap(({ node, answer }) => {
    if (!answer.ok)
      return [{ endings: [], unknown: [{ subject: `growth of the disks of ${node}`, error: answer.error }] }];
    return answer.value.fileSystems.map((each) => {
      const { availableBytes, capacityBytes } = each;
      const subject = `${each.name} of ${node}`;
      return forecast(facts, growthOfDisk(facts, node, each), {
        ...{ subject, usedBytes: capacityBytes - availableBytes, sizeBytes: capacityBytes },
        limits: [SPACE_WARNING_SHARE, SPACE_ERROR_SHARE].map((share) => ({
          subject: `${subject}: less than ${percent(share)} free`,
          leftBytes: availableBytes - share * capacityBytes,
        })),
        renewal: 'space that you free, or a larger file system',
      });
    });
  });
}

function etcdGrowths(facts: ClusterFacts): readonly Endings[] {
  // Without records, `endingsUntil()` names more important things that are not known.
  if (!facts.records.ok) return [];
  const { value: records } = facts.records;
  return ETCDS.flatMap(({ subject, key, name }) => {
    const etcd = records[key];
    if (etcd === undefined || etcd.quotaBytes === 0) return [];
    const { dbSizeBytes, quotaBytes } = etcd;
    return [
      forecast(facts, growthOfEtcd(facts, records, name), {
        ...{ subject, usedBytes: dbSizeBytes, sizeBytes: quotaBytes },
        limits: [
          {
            subject: `${subject}: more than ${percent(DATABASE_WARNING_SHARE)} of its quota`,
            leftBytes: DATABASE_WARNING_SHARE * quotaBytes - dbSizeBytes,
          },
          { subject: `${subject}: full, refuses every write`, leftBytes: quotaBytes - dbSizeBytes },
        ],
        renewal: 'objects that you delete; `cluster recover space` frees the space of deleted ones',
      }),
    ];
  });
}

/** Members have the same content and grow alike: the member that grows fastest counts, and a member that was measured for a short time does not. */
function growthOfEtcd(facts: ClusterFacts, { nodes }: RecordFacts, name: string): SeenGrowth {
  const seen = nodes
    .filter(({ state, isControlPlane }) => state === 'up' && isControlPlane)
    .map((node) => growthOn(facts, node.name, { kind: 'etcd', name }));
  const [fastest] = seen
    .filter((each) => each.kind === 'measured')
    .toSorted((a, b) => b.bytesPerDay - a.bytesPerDay);
  return (
    fastest ??
    seen.find(({ kind }) => kind === 'too-few') ??
    seen[0] ?? { kind: 'missing', why: 'no control plane is known' }
  );
}

function forecast(
  { takenMs }: ClusterFacts,
  growth: SeenGrowth,
  { subject, usedBytes, sizeBytes, limits, renewal }: Growing,
): Endings {
  if (growth.kind !== 'measured')
    return {
      endings: [],
      unknown: [
        {
          ...{ subject: `growth of the ${subject}`, error: growth.why },
          ...(growth.kind === 'too-few' && { isTooEarly: true }),
        },
      ],
    };
  const { bytesPerDay } = growth;
  const figure = `${formatBytes(usedBytes)} of ${formatBytes(sizeBytes)} used, ${describeGrowth(growth)}`;
  const endings = limits.flatMap(({ subject: of, leftBytes }): readonly Ending[] => {
    const endsMs = passesMs(takenMs, { leftBytes, bytesPerDay });
    return endsMs === undefined ? [] : [{ subject: of, endsMs, renewsItself: false, renewal, figure }];
  });
  return { endings, unknown: [] };
}
