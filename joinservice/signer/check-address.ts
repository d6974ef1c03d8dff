import type { NodeRecord, SettingsRecord } from '../../internal/records/index.ts';
import { isControlPlane } from '../../internal/role/index.ts';
import { canonicalAddress } from '../../internal/endpoint/index.ts';
import { whyAddressReserved } from '../evidence/index.ts';
import { SignerError } from './errors.ts';
import type { KnownControlPlane } from './signer-memory.ts';

/** Networks and addresses that no node may have. */
export type ReservedNetworks = Pick<
  SettingsRecord,
  'serviceSubnet' | 'podSubnet' | 'apiServerSans' | 'apiEndpoint'
>;

/** A node whose address and name are reserved for it. */
export type ReservedNode = Pick<KnownControlPlane, 'nodeId' | 'name' | 'address'>;

/**
 * Returns the address for a certificate, in canonical form. The signer trusts neither the checks of the join service
 * nor etcd. The agent of this node provides the reserved networks, and the signer's own memory has the control
 * planes.
 * @throws SignerError `signer-request-invalid`, `signer-address-other`
 */
export function checkAddress(
  node: NodeRecord,
  requested: string,
  against: { readonly networks: ReservedNetworks; readonly controlPlanes: readonly ReservedNode[] },
): string {
  const address = canonicalAddress(requested);
  if (address === undefined)
    throw new SignerError(
      'signer-request-invalid',
      `invalid request to sign: ${JSON.stringify(requested.slice(0, 64))} is not an IP address`,
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
