const LABEL = 'cluster/reset/v1\0';

/**
 * What an owner signs to have a machine become fresh again: label, then cluster id and node id, each with its length
 * (u32 big endian) before it. The node id is the machine's key's own, and a reset ends that key: the order fits no later
 * life of the same machine.
 */
export function resetStatement(node: { readonly clusterId: string; readonly nodeId: string }): Uint8Array {
  const parts = [node.clusterId, node.nodeId].flatMap((text) => {
    const part = Buffer.from(text, 'utf8');
    const length = Buffer.alloc(4);
    length.writeUInt32BE(part.length);
    return [length, part];
  });
  return Buffer.concat([Buffer.from(LABEL, 'utf8'), ...parts]);
}
