import type { Entry } from '../../internal/etcd/index.ts';
import { parseStage, type RotationMember } from '../../internal/keyset/index.ts';
import { isControlPlane } from '../../internal/role/index.ts';
import { membersOnRecord } from '../membership/index.ts';

/** Selects the members that take part in a rotation from the records of all nodes. Pure. */
export function keyMembersFrom(entries: readonly Pick<Entry, 'key' | 'value'>[]): readonly RotationMember[] {
  return membersOnRecord(entries).map(({ nodeId, name, roles, isAlive, status }) => ({
    ...{ nodeId, name, isAlive },
    isControlPlane: isControlPlane(roles),
    stage: status?.keys && parseStage(status.keys),
    knowsEncryption: status?.keys?.knowsEncryption === true,
    laterKeys: status?.keys?.laterKeys ?? [],
  }));
}
