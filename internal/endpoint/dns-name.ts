/** A DNS label of lower-case letters (RFC 1123, section 2.1): names of nodes, clusters and namespaces. */
export const DNS_LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** A DNS name of lower-case letters: labels separated by dots, at most 253 characters. */
export const DNS_NAME =
  /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$/;
