import { defineErrors, errorClass, fault } from '../../internal/errors/index.ts';

/** Codes of this directory's errors, with meaning and fix. */
export const nodeConfigurationErrors = defineErrors({
  'nodeconfiguration-unsigned': fault.peer.refused(
    'This node received a cluster configuration that no current owner has signed, or that is older than the configuration in use. The node keeps its current registries and logins.',
    'Ask an owner to run `cluster config apply` or `cluster sign`. If the error remains, somebody who has a key of the cluster is in the path to its control planes: find out who.',
  ),
});

/** An error with a code of this directory. */
export class NodeConfigurationError extends errorClass(nodeConfigurationErrors) {}
