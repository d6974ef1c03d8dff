/** A key that all control planes have. Deleting a node's records does not revoke it. */
export interface SharedKey {
  readonly key: string;
  /** What an attacker with a copy of the key can do. */
  readonly harm: string;
  /** Whether the key stays when the shared keys are rotated. */
  readonly lasts: boolean;
  /**
   * Text that tells which endpoints accepted or refused credentials made with this key; undefined if none was
   * tested.
   */
  readonly tried?: string;
}

/** The shared keys, and the test credentials that removal probes make with each (bootstrapper/removalprobe). */
export const SHARED_KEYS: readonly (SharedKey & { readonly credentials: readonly string[] })[] = [
  {
    key: 'etcd clients CA',
    harm: 'read and write all of Kubernetes in its etcd, bypassing every API server',
    lasts: false,
    credentials: ['etcd-client'],
  },
  {
    key: 'etcd peers CA',
    harm: 'act as a member of the Kubernetes etcd',
    lasts: false,
    credentials: ['etcd-peer'],
  },
  {
    key: 'state etcd clients CA',
    harm: 'read and write all records of the cluster as root of the state etcd, bypassing every curator',
    lasts: false,
    credentials: ['state-etcd-client'],
  },
  {
    key: 'state etcd peers CA',
    harm: 'act as a member of the state etcd',
    lasts: false,
    credentials: ['state-etcd-peer'],
  },
  {
    key: 'Kubernetes clients CA',
    harm: 'act as any user of Kubernetes, including system:masters',
    lasts: false,
    credentials: ['kubernetes-user'],
  },
  {
    key: 'front proxy CA',
    harm: 'call the API servers in the name of any user',
    lasts: false,
    credentials: ['front-proxy'],
  },
  {
    key: 'service account key',
    harm: 'make tokens of any service account',
    lasts: false,
    credentials: ['service-account'],
  },
  {
    key: 'encryption key',
    harm: 'read secrets in a copy of etcd',
    lasts: false,
    credentials: ['encryption-key'],
  },
  {
    key: 'Kubernetes CA',
    harm: 'impersonate an API server or a kubelet to clients whose traffic can be diverted',
    lasts: false,
    credentials: ['kubernetes-server'],
  },
  {
    key: 'cluster CA',
    harm: 'impersonate a curator or a join service to members, operators and machines whose traffic can be diverted',
    lasts: false,
    credentials: ['member', 'operator'],
  },
];

/** What is known about the shared keys on the disk of a removed node. */
export type KeysOnDisk =
  /** Its machine reported that it had deleted them. */
  | 'deleted'
  | 'left'
  /** The removal was recorded by an older release, which did not record whether the node had shared keys. */
  | 'unknown';

/** What happened to the shared keys of a removed node. */
export type KeysOutcome =
  /** The node had no shared keys. */
  | 'none'
  | 'replaced'
  /** Replacing was requested, and the command did not wait for its end. */
  | 'under-way'
  /** Replacing was not requested: the node left in order, or the operator chose to keep the keys. */
  | 'kept'
  /** Replacing needs an owner, and the caller is not an owner. */
  | 'owner-needed'
  /** The node is removed already, and its removal does not tell whether it had shared keys. */
  | 'unknown';

/** What is known about the copies of shared keys that a removed node may have kept. */
export interface RemainingKeys {
  readonly onDisk: KeysOnDisk;
  readonly outcome: KeysOutcome;
  /** Generation of the keys that the node had. */
  readonly generation: number | undefined;
}

/** Without this line, a test result reads as if the credentials of the removed node were accepted. */
const HOW_TRIED =
  'For these tests a control plane made credentials with its own copies of the keys. The credentials of the removed node are refused.';
/** A refused test is no good news about a key that was not replaced. */
const ONE_TRIED =
  'A test that was refused tried one credential only: a copy of the key may still make others that are accepted.';

/** Lines that tell what a copy of the removed node's disk can still be used for; none if it held no keys. */
export function describeSharedKeys(
  keys: readonly SharedKey[],
  { onDisk, outcome, generation }: RemainingKeys,
): readonly string[] {
  if (keys.length === 0 || outcome === 'none') return [];
  const head = 'The node held keys that all control planes share.';
  if (outcome === 'replaced') return ['', head, ...describeReplacedKeys(keys).slice(1)];
  return [
    '',
    ...(outcome === 'unknown'
      ? [
          'Its records are deleted. If the node was a control plane, it held keys that all of them share.',
          'Whether they were wiped from its disk is not known, and a copy is not revoked:',
        ]
      : [
          head,
          onDisk === 'deleted'
            ? 'They were wiped from its disk. An earlier copy is not revoked:'
            : 'They were not wiped from its disk and are not revoked:',
        ]),
    ...rowsOf(keys),
    ...(keys.some(({ tried }) => tried !== undefined) ? [HOW_TRIED] : []),
    ...(keys.some(({ tried }) => tried?.startsWith('refused') === true) ? [ONE_TRIED] : []),
    adviceFor(outcome, `cluster keys rotate --replace ${generation ?? 1}`),
  ];
}

/**
 * What the operator should do. `command` names the generation to replace, so that running it twice does not
 * rotate twice.
 */
function adviceFor(outcome: Exclude<KeysOutcome, 'none' | 'replaced'>, command: string): string {
  switch (outcome) {
    case 'under-way':
      return 'The cluster is replacing these keys. To see the progress: cluster keys show';
    case 'kept':
      return `Unless the disk is destroyed and was never copied, replace these keys: ${command}`;
    case 'owner-needed':
      return `Unless the disk is destroyed, an owner must replace these keys: ${command}`;
    case 'unknown':
      return `Unless these keys have been replaced since, or the disk is destroyed, replace these keys: ${command}`;
  }
}

/** Lines on the keys that were replaced, and those that a rotation of an earlier version kept. The first line is empty. */
export function describeReplacedKeys(keys: readonly SharedKey[]): readonly string[] {
  const [replaced, kept] = [keys.filter(({ lasts }) => !lasts), keys.filter(({ lasts }) => lasts)];
  return [
    '',
    'The keys were replaced. Credentials made with the old ones are refused:',
    ...replaced.map(({ key, tried }) => row(key, tried ?? 'not tested')),
    ...(kept.length === 0
      ? []
      : ['The rotation did not replace these keys. A copy can still be used to:', ...rowsOf(kept)]),
  ];
}

function rowsOf(keys: readonly SharedKey[]): readonly string[] {
  return keys.flatMap(({ key, harm, tried }) => [
    row(key, harm),
    ...(tried === undefined ? [] : [row('', `tested: ${tried}`)]),
  ]);
}

function row(name: string, text: string): string {
  return `  ${name.padEnd(23)}${text}`.trimEnd();
}
