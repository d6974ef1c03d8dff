/** A key that every control plane has: no record can take it back. */
export interface SharedKey {
  readonly key: string;
  /** What somebody with a copy could do. */
  readonly harm: string;
  /** No rotation replaces it. */
  readonly lasts: boolean;
  /** Whether what it makes was let in when it was tried; undefined where nothing of it can be tried. */
  readonly tried?: string;
}

/** In the order of what they open. Papers are what is tried of a key (bootstrapper/impostor). */
export const SHARED_KEYS: readonly (SharedKey & { readonly papers: readonly string[] })[] = [
  {
    key: 'etcd clients CA',
    harm: 'read and write all of Kubernetes in its etcd, past every API server',
    lasts: false,
    papers: ['etcd-client'],
  },
  {
    key: 'etcd peers CA',
    harm: 'speak to members of the Kubernetes etcd as one of them',
    lasts: false,
    papers: ['etcd-peer'],
  },
  {
    key: 'state etcd clients CA',
    harm: "read and write all records of the cluster as the state etcd's root, past every curator",
    lasts: false,
    papers: ['state-etcd-client'],
  },
  {
    key: 'state etcd peers CA',
    harm: 'speak to members of the state etcd as one of them',
    lasts: false,
    papers: ['state-etcd-peer'],
  },
  {
    key: 'Kubernetes clients CA',
    harm: 'be any user of Kubernetes, system:masters too',
    lasts: false,
    papers: ['kubernetes-user'],
  },
  {
    key: 'front proxy CA',
    harm: 'speak to the API servers in the name of any user',
    lasts: false,
    papers: ['front-proxy'],
  },
  {
    key: 'service account key',
    harm: 'make tokens of any service account',
    lasts: false,
    papers: ['service-account'],
  },
  {
    key: 'Kubernetes CA',
    harm: 'pose as an API server or a kubelet to whoever it can divert',
    lasts: true,
    papers: ['kubernetes-server'],
  },
  { key: 'encryption key', harm: 'read secrets in a copy of etcd', lasts: true, papers: [] },
  {
    key: 'cluster CA',
    harm: 'pose as a curator to whoever it can divert; without a key on record every curator refuses it',
    lasts: true,
    papers: ['member', 'operator'],
  },
];

/** What has become of the keys that a removed node held. */
export type KeysOutcome =
  /** It held none. */
  | 'none'
  | 'replaced'
  /** Asked for, and not waited for to its end. */
  | 'under-way'
  /** Nobody asked for others: it left in order, or the operator said so. */
  | 'kept'
  /** Only an owner may have them replaced. */
  | 'owner-needed'
  /** It is off the records: whether it held any is forgotten. */
  | 'unknown';

export interface RemainingKeys {
  readonly isLost: boolean;
  readonly outcome: KeysOutcome;
  /** Of those that it held. */
  readonly generation: number | undefined;
}

/** In plain words what can still be done with what was on the disk of a removed node; nothing where nothing was. */
export function describeSharedKeys(
  keys: readonly SharedKey[],
  { isLost, outcome, generation }: RemainingKeys,
): readonly string[] {
  if (keys.length === 0 || outcome === 'none') return [];
  if (outcome === 'replaced')
    return ['', 'It held keys that all control planes share.', ...describeReplacedKeys(keys).slice(1)];
  return [
    '',
    outcome === 'unknown'
      ? 'If it was a control plane, it held keys that all of them share.'
      : 'It held keys that all control planes share.',
    isLost
      ? 'They are not wiped from its disk, and not revoked yet:'
      : 'They were wiped from its disk; a copy that somebody made before is not revoked yet:',
    ...rowsOf(keys),
    wayOut(outcome, `cluster keys rotate --replace ${generation ?? 1}`),
  ];
}

/** The command names the generation: said twice, or when others were made since, it begins nothing. */
function wayOut(outcome: Exclude<KeysOutcome, 'none' | 'replaced'>, command: string): string {
  switch (outcome) {
    case 'under-way':
      return 'The cluster replaces them by itself, all but those of the last three rows; how far it is: cluster keys show';
    case 'kept':
      return `Unless the disk is destroyed and was never copied, have them replaced: ${command}`;
    case 'owner-needed':
      return `Unless the disk is destroyed, an owner has to have them replaced: ${command}`;
    case 'unknown':
      return `Unless they were replaced since, or its disk is destroyed: ${command}`;
  }
}

/** What came of trying the keys that were replaced, and which stay. */
export function describeReplacedKeys(keys: readonly SharedKey[]): readonly string[] {
  return [
    '',
    'They were replaced; what the old ones make is refused:',
    ...keys.filter(({ lasts }) => !lasts).map(({ key, tried }) => row(key, tried ?? 'not tried')),
    'What cannot be replaced, and a copy can still be used for:',
    ...rowsOf(keys.filter(({ lasts }) => lasts)),
  ];
}

function rowsOf(keys: readonly SharedKey[]): readonly string[] {
  return keys.flatMap(({ key, harm, tried }) => [
    row(key, harm),
    ...(tried === undefined ? [] : [row('', `tried now: ${tried}`)]),
  ]);
}

function row(name: string, text: string): string {
  return `  ${name.padEnd(22)}${text}`.trimEnd();
}
