import { fromBinary } from '@bufbuild/protobuf';
import type { Entry } from '../../internal/etcd/index.ts';
import { parseStage, type RotationMember } from '../../internal/keyset/index.ts';
import { parseNodeKey, records } from '../../internal/records/index.ts';
import { isControlPlane, isMemberState } from '../../internal/role/index.ts';
import { NodeStatusSchema } from '../../joinservice/curatorproto/gen/curator_pb.js';

/** Selects the members that take part in a rotation from the records of all nodes. Pure. */
export function keyMembersFrom(entries: readonly Pick<Entry, 'key' | 'value'>[]): readonly RotationMember[] {
  const at = new Map(entries.map(({ key, value }) => [key, value]));
  return entries.flatMap(({ key, value }) => {
    if (parseNodeKey(key)?.part !== 'record') return [];
    const { nodeId, name, roles, state } = records.node.decode(key, value);
    if (!isMemberState(state)) return [];
    const statusKey = records.status.key(nodeId);
    return {
      ...{ nodeId, name },
      isControlPlane: isControlPlane(roles),
      isAlive: at.has(records.heartbeat.key(nodeId)),
      ...reportedBy(statusKey, at.get(statusKey)),
    };
  });
}

function reportedBy(
  key: string,
  value: Uint8Array | undefined,
): Pick<RotationMember, 'stage' | 'knowsEncryption' | 'laterKeys'> {
  if (value === undefined) return { stage: undefined, knowsEncryption: false, laterKeys: [] };
  const { status } = records.status.decode(key, value);
  const { keys } = fromBinary(NodeStatusSchema, Buffer.from(status, 'base64'));
  return {
    stage: keys && parseStage(keys),
    knowsEncryption: keys?.knowsEncryption === true,
    laterKeys: keys?.laterKeys ?? [],
  };
}
