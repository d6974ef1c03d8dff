import { absent, remove, unchanged, type KeySpace } from '../../internal/etcd/index.ts';
import { ADDRESSES_PREFIX, records, type NodeRecord } from '../../internal/records/index.ts';
import { isControlPlane, isMemberState } from '../../internal/role/index.ts';

/**
 * The control plane for which an address is reserved, whether it is running or not. A reservation counts only while its node is on
 * record as a control plane, so that a removed or demoted node frees its address.
 * @param address in canonical form
 */
export async function controlPlaneAt(
  etcd: Pick<KeySpace, 'get'>,
  address: string,
  signal: AbortSignal,
): Promise<NodeRecord | undefined> {
  const entry = await etcd.get(records.address.key(address), { signal });
  if (entry === undefined) return undefined;
  const key = records.node.key(records.address.decode(entry.key, entry.value).nodeId);
  const found = await etcd.get(key, { signal });
  const node = found === undefined ? undefined : records.node.decode(key, found.value);
  return node !== undefined && isMemberState(node.state) && isControlPlane(node.roles) ? node : undefined;
}

/**
 * Reserves the address of a control plane and frees its previous ones. The caller has checked that no other control plane has it.
 * @param address in canonical form
 * @returns false if another node reserved the address in the meantime
 */
export async function reserveAddress(
  etcd: Pick<KeySpace, 'list' | 'commit'>,
  { nodeId, address }: { readonly nodeId: string; readonly address: string },
  signal: AbortSignal,
): Promise<boolean> {
  const key = records.address.key(address);
  const { entries } = await etcd.list(ADDRESSES_PREFIX, { signal });
  const held = entries.find((entry) => entry.key === key);
  const own = entries.filter((entry) => records.address.decode(entry.key, entry.value).nodeId === nodeId);
  if (own.length === 1 && own[0] === held) return true;
  const result = await etcd.commit(
    {
      when: [held === undefined ? absent(key) : unchanged(held)],
      then: [
        ...own.filter((entry) => entry !== held).map((entry) => remove(entry.key)),
        records.address.put(key, { version: 1, nodeId }),
      ],
    },
    { signal },
  );
  return result.kind === 'committed';
}
