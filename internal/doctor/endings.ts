import type { Ending, Endings } from './ending.ts';
import { growthEndings } from './growth-endings.ts';
import type { BackupFacts, ClusterFacts, FactsPart, NodeFacts } from './cluster-facts.ts';
import { supportOf } from '../bundle/index.ts';
import { isAuthority, LASTING_DOCUMENTS, versionsOf } from './checks/expiry-checks.ts';

/**
 * Everything that ends before a given time if nobody does anything, sorted by time: at its end, a check of the doctor has a problem that it did
 * not have before. Names only the certificate of each node that expires first, because its agent renews all of them in the same way.
 */
export function endingsUntil(facts: ClusterFacts, untilMs: number): Endings {
  const { local } = facts;
  const nodes: FactsPart<readonly NodeCertificates[]> =
    local === undefined
      ? mapPart(facts.records, (records) => records.nodes)
      : { ok: true, value: [{ name: local.node, certificates: local.certificates }] };
  const parts: readonly [string, FactsPart<readonly Ending[]>][] = [
    ['certificates of nodes', mapPart(nodes, (found) => found.flatMap(certificatesOf))],
    ['owner documents', mapPart(facts.documents, documentsOf)],
    [
      'schedule of backups',
      facts.backups === undefined ? { ok: true, value: [] } : mapPart(facts.backups, scheduleOf),
    ],
    ['collateral', mapPart(facts.collateral, collateralOf)],
    ['support of Kubernetes', mapPart(facts.records, ({ nodes }) => versionsOf(nodes).flatMap(supportEnds))],
  ];
  const growth = growthEndings(facts);
  const all = [
    ...credentialsOf(facts),
    ...growth.endings,
    ...parts.flatMap(([, part]) => (part.ok ? part.value : [])),
  ];
  const seen = new Set<string>();
  return {
    endings: all
      .filter(({ endsMs }) => endsMs <= untilMs)
      .toSorted((a, b) => a.endsMs - b.endsMs)
      // Every control plane reports the same CAs.
      .filter(({ subject, endsMs }) => !seen.has(`${subject} ${endsMs}`) && seen.add(`${subject} ${endsMs}`)),
    unknown: [
      ...parts.flatMap(([subject, part]) => (part.ok ? [] : [{ subject, error: part.error }])),
      ...unknownSupport(facts),
      ...growth.unknown,
    ],
  };
}

function credentialsOf({ credentials }: ClusterFacts): readonly Ending[] {
  if (credentials === undefined) return [];
  const { certificateMs, kubeconfigMs } = credentials;
  const renewal = 'each command that reaches a curator';
  return [
    { subject: 'certificate of this workspace', endsMs: certificateMs, renewsItself: true, renewal },
    ...(kubeconfigMs === undefined
      ? []
      : [
          {
            subject: 'kubeconfig of this workspace',
            endsMs: kubeconfigMs,
            renewsItself: false,
            renewal: '`cluster kubeconfig --renew`',
          },
        ]),
  ];
}

type NodeCertificates = Pick<NodeFacts, 'name' | 'certificates'>;

function certificatesOf({ name: node, certificates }: NodeCertificates): readonly Ending[] {
  const authorities = certificates.filter(({ name }) => isAuthority(name));
  const [first] = certificates
    .filter(({ name }) => !isAuthority(name))
    .toSorted((a, b) => a.notAfterMs - b.notAfterMs);
  const renewal = 'the agent of the node, if it can reach a control plane';
  return [
    ...(first === undefined
      ? []
      : [{ subject: `certificates of ${node}`, endsMs: first.notAfterMs, renewsItself: true, renewal }]),
    ...authorities.map(({ name, notAfterMs: endsMs }) => ({
      ...{ subject: `CA ${name}`, endsMs, renewsItself: false },
      renewal: 'not renewed; `cluster keys rotate` replaces the CAs that control planes share',
    })),
  ];
}

function documentsOf(documents: readonly { readonly kind: string; readonly endsMs: number }[]) {
  return documents
    .filter(({ kind }) => LASTING_DOCUMENTS.includes(kind))
    .map(({ kind, endsMs }) => ({
      ...{ subject: `document ${kind}`, endsMs, renewsItself: false },
      renewal: '`cluster sign` by an owner',
    }));
}

function scheduleOf({ schedule }: BackupFacts): readonly Ending[] {
  if (schedule === undefined) return [];
  const renewal = 'an owner signs again (`cluster backup schedule show` prints the command)';
  return [{ subject: 'schedule of backups', endsMs: schedule.endsMs, renewsItself: false, renewal }];
}

function collateralOf(items: readonly { readonly what: string; readonly expiresMs: number }[]) {
  return items.map(({ what, expiresMs: endsMs }) => ({
    ...{ subject: what, endsMs, renewsItself: false },
    renewal: '`cluster attest collateral refresh`',
  }));
}

function supportEnds(version: string): readonly Ending[] {
  const support = supportOf(version);
  if (support === undefined) return [];
  const renewal = 'a cluster with a newer version of Kubernetes';
  return [
    {
      subject: `support of Kubernetes ${support.minor}`,
      endsMs: support.endMs,
      renewsItself: false,
      renewal,
    },
  ];
}

function unknownSupport({ records }: ClusterFacts): Endings['unknown'] {
  const versions = records.ok ? versionsOf(records.value.nodes) : [];
  return versions
    .filter((version) => supportOf(version) === undefined)
    .map((version) => ({
      subject: `support of Kubernetes ${version}`,
      error: 'newer than this program, or older',
    }));
}

function mapPart<T, R>(part: FactsPart<T>, map: (value: T) => R): FactsPart<R> {
  return part.ok ? { ok: true, value: map(part.value) } : part;
}
