// What holds the namespaces of a pod: it sleeps until it is told to end.
module dally.internal/tools/pause

go 1.26.0
