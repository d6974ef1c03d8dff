import type { NodeRecord, SettingsRecord } from '../../internal/records/index.ts';
import { isControlPlane } from '../../internal/role/index.ts';
import { canonicalAddress, whyAddressReserved } from '../evidence/index.ts';
import { SignerError } from './errors.ts';
import type { KnownControlPlane } from './signer-memory.ts';

export type ReservedNetworks = Pick<
  SettingsRecord,
  'serviceSubnet' | 'podSubnet' | 'apiServerSans' | 'apiEndpoint'
>;

/** A node that nobody else may pass for. */
export type ReservedNode = Pick<KnownControlPlane, 'nodeId' | 'name' | 'address'>;

/**
 * The address that a certificate may carry, in its one form. The join service has checked it too; the signer asks neither
 * it nor etcd: the networks come from this node's agent, the control planes from what the signer has signed for.
 * @throws SignerError `signer-request-invalid`, `signer-address-other`
 */
export function checkAddress(
  node: NodeRecord,
  asked: string,
  against: { readonly networks: ReservedNetworks; readonly controlPlanes: readonly ReservedNode[] },
): string {
  const address = canonicalAddress(asked);
  if (address === undefined)
    throw new SignerError(
      'signer-request-invalid',
      `reading a request to sign: the address ${JSON.stringify(asked.slice(0, 64))}`,
    );
  const why =
    whyAddressReserved(address, against.networks, { servesApi: isControlPlane(node.roles) }) ??
    heldBy(node, address, against.controlPlanes);
  if (why !== undefined)
    throw new SignerError('signer-address-other', `signing for ${node.nodeId} at ${address}: ${why}`);
  return address;
}

function heldBy(
  node: NodeRecord,
  address: string,
  controlPlanes: readonly ReservedNode[],
): string | undefined {
  for (const other of controlPlanes) {
    if (other.nodeId === node.nodeId) continue;
    if (other.address === address) return `it is the address of control plane ${other.name}`;
    if (other.name === node.name) return `its name ${node.name} is that of control plane ${other.nodeId}`;
  }
  return undefined;
}
