import type { BackupFacts, ClusterFacts, FactsPart } from './cluster-facts.ts';
import { isAuthority, LASTING_DOCUMENTS } from './checks/expiry-checks.ts';

/** A certificate, document or schedule that expires at a known time. */
export interface Ending {
  /** E.g. "document policy". */
  readonly subject: string;
  readonly endsMs: number;
  /** Whether a program renews it, so that no person has to act while the cluster works. */
  readonly renewsItself: boolean;
  /** The program or command that renews it. */
  readonly renewal: string;
}

/** Everything that expires, and the parts that could not be read. */
export interface Endings {
  /** Sorted by time. */
  readonly endings: readonly Ending[];
  /** Parts that could not be read, each with the reason. */
  readonly unknown: readonly { readonly subject: string; readonly error: string }[];
}

/**
 * Everything that expires before a given time unless it is renewed, sorted by time. Names only the certificate of each node that
 * expires first, because its agent renews all of them in the same way.
 */
export function endingsUntil(facts: ClusterFacts, untilMs: number): Endings {
  const parts: readonly [string, FactsPart<readonly Ending[]>][] = [
    ['certificates of nodes', mapPart(facts.records, ({ nodes }) => nodes.flatMap(certificatesOf))],
    ['owner documents', mapPart(facts.documents, documentsOf)],
    [
      'schedule of backups',
      facts.backups === undefined ? { ok: true, value: [] } : mapPart(facts.backups, scheduleOf),
    ],
    ['collateral', mapPart(facts.collateral, collateralOf)],
  ];
  const all = [...credentialsOf(facts), ...parts.flatMap(([, part]) => (part.ok ? part.value : []))];
  const seen = new Set<string>();
  return {
    endings: all
      .filter(({ endsMs }) => endsMs <= untilMs)
      .toSorted((a, b) => a.endsMs - b.endsMs)
      // Every control plane reports the same CAs.
      .filter(({ subject, endsMs }) => !seen.has(`${subject} ${endsMs}`) && seen.add(`${subject} ${endsMs}`)),
    unknown: parts.flatMap(([subject, part]) => (part.ok ? [] : [{ subject, error: part.error }])),
  };
}

function credentialsOf({ credentials }: ClusterFacts): readonly Ending[] {
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

type NodeCertificates = Extract<ClusterFacts['records'], { ok: true }>['value']['nodes'][number];

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
  const renewal = '`cluster backup schedule set` by an owner';
  return [{ subject: 'schedule of backups', endsMs: schedule.endsMs, renewsItself: false, renewal }];
}

function collateralOf(items: readonly { readonly what: string; readonly expiresMs: number }[]) {
  return items.map(({ what, expiresMs: endsMs }) => ({
    ...{ subject: what, endsMs, renewsItself: false },
    renewal: '`cluster attest collateral refresh`',
  }));
}

function mapPart<T, R>(part: FactsPart<T>, map: (value: T) => R): FactsPart<R> {
  return part.ok ? { ok: true, value: map(part.value) } : part;
}
