import { defineErrors, errorClass, fault } from '../../internal/errors/index.ts';

/** Errors about what an owner is asked to sign, and about the files for it. */
export const signErrors = defineErrors({
  'sign-new-keys-untrusted': fault.peer.refused(
    'A curator showed shared keys to sign, and this workspace cannot tell that a control plane of the cluster created them.',
    'Run `cluster verify NODE` for the node in the message, then the same command again. If the node is not yours, or its signature does not match, do not sign: somebody poses as a control plane.',
  ),
  'sign-file-malformed': fault.operator.usage(
    'The file is not a request for a signature or a signed file, is damaged, or was written by another version. Nothing was signed or changed.',
    'Copy the file again, without changing it. If that does not help, compare the versions of the CLI on both workstations.',
  ),
  'sign-file-exists': fault.operator.precondition(
    'The file exists. It was not overwritten.',
    'Delete the file if it is not needed, or choose another name.',
  ),
  'sign-request-altered': fault.peer.refused(
    'The request, or a document in it, was changed after it was written. Nothing was signed.',
    'Do not sign. Ask the operator to write a new request, and to send it on another way.',
  ),
  'sign-request-other-cluster': fault.operator.refused(
    'The request is for another cluster than this workspace. Nothing was signed.',
    'Select the workspace of that cluster with --workspace or --context.',
  ),
  'sign-request-epoch': fault.operator.refused(
    'The cluster was recovered or restored since the request was written, or this workspace does not know of it yet. Nothing was signed.',
    'Run `cluster status` in this workspace once. If the request is still refused, ask the operator to write a new one.',
  ),
  'sign-request-requester': fault.peer.refused(
    'The key that wrote the request is not the key of an operator that an owner has signed. Nothing was signed.',
    'Do not sign. Find out where the file comes from: `cluster operator ls` lists the operators.',
  ),
  'sign-request-unfounded': fault.peer.refused(
    'The request does not follow from what owners have signed. Nothing was signed.',
    'If a signature is missing or has expired, an owner runs `cluster sign` in reach of the cluster first. Otherwise do not sign.',
  ),
  'sign-request-owners': fault.operator.refused(
    'The request changes the owners. Only an owner in reach of the cluster may do that. Nothing was signed or changed.',
    'Ask an owner to run the same command with the owner key.',
  ),
  'sign-signed-other': fault.operator.refused(
    'The signed file has no document for this change: it was signed for another one, or what the change is based on has changed meanwhile. Nothing was changed.',
    'Run the same command with --request-signature, and ask an owner to sign the new request.',
  ),
});

/** An error about what an owner is asked to sign. */
export class SignError extends errorClass(signErrors) {}
