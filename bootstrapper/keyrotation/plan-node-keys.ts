import { hasReached, type KeyPhase, type KeyStage } from '../../internal/keyset/index.ts';

/** Inputs of `planNodeKeys()`. */
export interface NodeKeysInputs {
  /** Stage of the cluster; undefined before the first rotation. */
  readonly cluster: { readonly generation: number; readonly phase: KeyPhase | 'asked' } | undefined;
  /** Stage that this node has completed. */
  readonly finished: KeyStage;
  /** Whether this node is a control plane; undefined until its roles are known. */
  readonly isControlPlane: boolean | undefined;
  /** Whether this node has the recorded keys. */
  readonly hasKeys: boolean;
}

/** The next step of this node. */
export type NodeKeysPlan =
  | { readonly kind: 'rest' }
  | { readonly kind: 'wait'; readonly why: string }
  /** Get the new keys from another control plane. */
  | { readonly kind: 'fetch' }
  /** Control plane: activate this phase. */
  | { readonly kind: 'enforce'; readonly phase: KeyPhase }
  /** Worker: trust the CAs of this phase and use its certificates. */
  | { readonly kind: 'follow'; readonly phase: KeyPhase };

/**
 * Plans the next step of a rotation. It also plans for a node whose control plane fails, because the new keys
 * may be what that control plane needs. Pure.
 */
export function planNodeKeys({
  cluster: told,
  finished: reached,
  isControlPlane,
  hasKeys,
}: NodeKeysInputs): NodeKeysPlan {
  if (told === undefined || told.phase === 'asked') return { kind: 'rest' };
  const { generation, phase } = told;
  // The announced keys are older than keys that this node has used. They come from records of an older cluster or from
  // somebody who poses as a curator. Replaced keys are never installed again.
  if (generation < reached.generation)
    return {
      kind: 'wait',
      why: `newer keys: generation ${generation} was announced, this node has used ${reached.generation}`,
    };
  // Fetching comes first: without the new keys, the signer would sign with keys that no node trusts.
  if (isControlPlane === true && !hasKeys) return { kind: 'fetch' };
  if (hasReached(reached, { generation, phase })) return { kind: 'rest' };
  if (isControlPlane === undefined) return { kind: 'wait', why: 'the roles of this node' };
  return { kind: isControlPlane ? 'enforce' : 'follow', phase };
}
