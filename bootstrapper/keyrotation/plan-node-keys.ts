import { hasReached, type KeyPhase, type KeyStage } from '../../internal/keyset/index.ts';

export interface NodeKeysInputs {
  /** As the cluster tells it; undefined before the first rotation. */
  readonly cluster: { readonly generation: number; readonly phase: KeyPhase | 'asked' } | undefined;
  /** What this node has finished. */
  readonly finished: KeyStage;
  /** undefined until its roles are known. */
  readonly isControlPlane: boolean | undefined;
  /** Whether this node has the keys that are on record. */
  readonly hasKeys: boolean;
}

export type NodeKeysPlan =
  | { readonly kind: 'rest' }
  | { readonly kind: 'wait'; readonly why: string }
  /** Get the new keys from another control plane. */
  | { readonly kind: 'fetch' }
  /** A control plane: bring this phase into force. */
  | { readonly kind: 'enforce'; readonly phase: KeyPhase }
  /** A worker: believe and show what this phase wants. */
  | { readonly kind: 'follow'; readonly phase: KeyPhase };

/** What this node does next about the keys that control planes share; where nothing runs as it should, too: what is missing may be the very keys. */
export function planNodeKeys({
  cluster: told,
  finished: reached,
  isControlPlane,
  hasKeys,
}: NodeKeysInputs): NodeKeysPlan {
  if (told === undefined || told.phase === 'asked') return { kind: 'rest' };
  const { generation, phase } = told;
  // Whatever it has finished: its signer would sign with keys that nobody believes.
  if (isControlPlane === true && !hasKeys) return { kind: 'fetch' };
  if (hasReached(reached, { generation, phase })) return { kind: 'rest' };
  if (isControlPlane === undefined) return { kind: 'wait', why: 'the roles of this node' };
  return { kind: isControlPlane ? 'enforce' : 'follow', phase };
}
