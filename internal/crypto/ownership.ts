import { createHash, X509Certificate } from 'node:crypto';

const LABEL = 'cluster/ownership/v1\0';

/**
 * What an owner signs to say whose cluster this is: label, then cluster id, SHA-256 of the cluster CA's DER and epoch
 * (u64 big endian), each with its length (u32 big endian) before it. Joining machines verify it against the owner key
 * that they were provisioned with.
 */
export function ownershipStatement(cluster: {
  readonly clusterId: string;
  readonly clusterCaPem: string;
  readonly epoch: bigint;
}): Uint8Array {
  const caDigest = Buffer.from(certificateSha256(cluster.clusterCaPem), 'hex');
  const epoch = Buffer.alloc(8);
  epoch.writeBigUInt64BE(cluster.epoch);
  const parts = [Buffer.from(cluster.clusterId, 'utf8'), caDigest, epoch].flatMap((part) => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(part.length);
    return [length, part];
  });
  return Buffer.concat([Buffer.from(LABEL, 'utf8'), ...parts]);
}

/** What names a certificate: SHA-256 of its DER, lower-case hex. Throws for what is none. */
export function certificateSha256(pem: string): string {
  return createHash('sha256').update(new X509Certificate(pem).raw).digest('hex');
}
