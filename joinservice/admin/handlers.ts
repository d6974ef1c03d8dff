import type { Handlers } from '../../internal/rpc/index.ts';
import type { Caller } from '../curator/index.ts';
import type { Admission } from '../curatorproto/gen/admission_pb.js';
import { collateralHandlers, type CollateralAdminParts } from './collateral-handlers.ts';
import { auditHandlers } from './audit-handlers.ts';
import { documentHandlers } from './document-handlers.ts';
import { joinAdminHandlers } from './join-handlers.ts';
import { kubeconfigHandlers, type KubeconfigSigner } from './kubeconfig-handlers.ts';
import { keysHandlers, type KeysAdminParts } from './keys-handlers.ts';
import { ownershipHandlers } from './ownership-handlers.ts';
import { operatorHandlers, type OperatorAdminParts } from './operator-handlers.ts';

export type AdminParts = Omit<OperatorAdminParts, 'signer'> &
  CollateralAdminParts &
  KeysAdminParts & {
    readonly signer: OperatorAdminParts['signer'] & KubeconfigSigner;
  };

export function adminHandlers(parts: AdminParts): Handlers<typeof Admission, Caller> {
  return {
    ...joinAdminHandlers(parts),
    ...auditHandlers(parts),
    ...operatorHandlers(parts),
    ...ownershipHandlers(parts),
    ...documentHandlers(parts),
    ...kubeconfigHandlers(parts),
    ...collateralHandlers(parts),
    ...keysHandlers(parts),
  };
}
