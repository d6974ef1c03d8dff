import { defineErrors, errorClass, fault } from '../../internal/errors/index.ts';

/** Codes of this directory's errors, with meaning and fix. */
export const registriesErrors = defineErrors({
  'registries-credentials-missing': fault.operator.precondition(
    'cluster.yaml says that nodes log in to a registry, but there is no user name and password for it.',
    'Add the server that the message names to registry-credentials.json in the workspace, for example with `docker --config DIRECTORY login SERVER` and the config.json that it writes, or set `credentials: false`. Then run the same command again.',
  ),
  'registries-credentials-invalid': fault.operator.usage(
    'registry-credentials.json of the workspace, or the Secret kube-system/cluster-registry-credentials, is no configuration file of Docker.',
    'Write the file as `docker login` does: {"auths": {"SERVER": {"auth": "BASE64 OF USER:PASSWORD"}}}. Delete a Secret with other content.',
  ),
});

/** Credentials of registries that are missing or invalid. */
export class RegistriesError extends errorClass(registriesErrors) {}
