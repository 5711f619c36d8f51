//! The words in which AWS reports the state of things, as types. A word that is not known here is kept.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each is AWS's word of its name")]
        pub enum $name {
            $($variant,)+
            /// A word that is newer than this program.
            Other(String),
        }

        impl $name {
            /// Every word that is known.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// As AWS spells it.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)+
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        impl From<String> for $name {
            fn from(word: String) -> Self {
                Self::from(word.as_str())
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::Other(String::new())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.pad(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

words! {
    /// State of a stack.
    StackStatus {
        CreateInProgress = "CREATE_IN_PROGRESS",
        CreateFailed = "CREATE_FAILED",
        CreateComplete = "CREATE_COMPLETE",
        RollbackInProgress = "ROLLBACK_IN_PROGRESS",
        RollbackFailed = "ROLLBACK_FAILED",
        RollbackComplete = "ROLLBACK_COMPLETE",
        DeleteInProgress = "DELETE_IN_PROGRESS",
        DeleteFailed = "DELETE_FAILED",
        DeleteComplete = "DELETE_COMPLETE",
        UpdateInProgress = "UPDATE_IN_PROGRESS",
        UpdateCompleteCleanupInProgress = "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS",
        UpdateComplete = "UPDATE_COMPLETE",
        UpdateFailed = "UPDATE_FAILED",
        UpdateRollbackInProgress = "UPDATE_ROLLBACK_IN_PROGRESS",
        UpdateRollbackFailed = "UPDATE_ROLLBACK_FAILED",
        UpdateRollbackCompleteCleanupInProgress = "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS",
        UpdateRollbackComplete = "UPDATE_ROLLBACK_COMPLETE",
        ReviewInProgress = "REVIEW_IN_PROGRESS",
        ImportInProgress = "IMPORT_IN_PROGRESS",
        ImportComplete = "IMPORT_COMPLETE",
        ImportRollbackInProgress = "IMPORT_ROLLBACK_IN_PROGRESS",
        ImportRollbackFailed = "IMPORT_ROLLBACK_FAILED",
        ImportRollbackComplete = "IMPORT_ROLLBACK_COMPLETE",
    }
}

words! {
    /// State of a change set.
    ChangeSetStatus {
        CreatePending = "CREATE_PENDING",
        CreateInProgress = "CREATE_IN_PROGRESS",
        CreateComplete = "CREATE_COMPLETE",
        DeletePending = "DELETE_PENDING",
        DeleteInProgress = "DELETE_IN_PROGRESS",
        DeleteComplete = "DELETE_COMPLETE",
        DeleteFailed = "DELETE_FAILED",
        Failed = "FAILED",
    }
}

words! {
    /// What a change set does with a resource.
    ChangeAction {
        Add = "Add",
        Modify = "Modify",
        Remove = "Remove",
        Import = "Import",
        Dynamic = "Dynamic",
        SyncWithActual = "SyncWithActual",
    }
}

words! {
    /// Whether a change makes the resource anew.
    Replacement {
        Yes = "True",
        No = "False",
        Conditional = "Conditional",
    }
}

words! {
    /// How drift detection goes.
    DetectionStatus {
        InProgress = "DETECTION_IN_PROGRESS",
        Complete = "DETECTION_COMPLETE",
        Failed = "DETECTION_FAILED",
    }
}

words! {
    /// Whether a stack is as its template says.
    DriftStatus {
        InSync = "IN_SYNC",
        Drifted = "DRIFTED",
        NotChecked = "NOT_CHECKED",
        Unknown = "UNKNOWN",
    }
}

words! {
    /// State of a KMS key.
    KeyState {
        Creating = "Creating",
        Enabled = "Enabled",
        Disabled = "Disabled",
        PendingDeletion = "PendingDeletion",
        PendingImport = "PendingImport",
        PendingReplicaDeletion = "PendingReplicaDeletion",
        Unavailable = "Unavailable",
        Updating = "Updating",
    }
}

words! {
    /// State of a network interface.
    InterfaceStatus {
        Associated = "associated",
        Attaching = "attaching",
        Available = "available",
        Detaching = "detaching",
        InUse = "in-use",
        Pending = "pending",
    }
}

words! {
    /// State of a file system.
    FileSystemState {
        Creating = "creating",
        Available = "available",
        Updating = "updating",
        Deleting = "deleting",
        Deleted = "deleted",
        Error = "error",
    }
}

words! {
    /// How EKS supports a version of Kubernetes.
    VersionSupport {
        Standard = "STANDARD_SUPPORT",
        Extended = "EXTENDED_SUPPORT",
        Unsupported = "UNSUPPORTED",
    }
}

words! {
    /// What the simulation of a policy says about an action.
    Decision {
        Allowed = "allowed",
        ExplicitDeny = "explicitDeny",
        ImplicitDeny = "implicitDeny",
    }
}

words! {
    /// State of a resource of a stack, or of the stack itself among its events.
    ResourceStatus {
        CreateInProgress = "CREATE_IN_PROGRESS",
        CreateFailed = "CREATE_FAILED",
        CreateComplete = "CREATE_COMPLETE",
        DeleteInProgress = "DELETE_IN_PROGRESS",
        DeleteFailed = "DELETE_FAILED",
        DeleteComplete = "DELETE_COMPLETE",
        DeleteSkipped = "DELETE_SKIPPED",
        UpdateInProgress = "UPDATE_IN_PROGRESS",
        UpdateFailed = "UPDATE_FAILED",
        UpdateComplete = "UPDATE_COMPLETE",
        UpdateCompleteCleanupInProgress = "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS",
        RollbackInProgress = "ROLLBACK_IN_PROGRESS",
        RollbackFailed = "ROLLBACK_FAILED",
        RollbackComplete = "ROLLBACK_COMPLETE",
        UpdateRollbackInProgress = "UPDATE_ROLLBACK_IN_PROGRESS",
        UpdateRollbackFailed = "UPDATE_ROLLBACK_FAILED",
        UpdateRollbackComplete = "UPDATE_ROLLBACK_COMPLETE",
    }
}

impl ResourceStatus {
    /// Whether AWS has begun and not ended.
    pub fn is_busy(&self) -> bool {
        self.as_str().ends_with("_IN_PROGRESS")
    }

    /// Whether it went wrong.
    pub fn is_failure(&self) -> bool {
        self.as_str().ends_with("_FAILED")
    }
}

impl StackStatus {
    /// Whether AWS is working on it. A new word counts as work when it ends so.
    pub fn is_busy(&self) -> bool {
        *self != Self::ReviewInProgress && self.as_str().ends_with("_IN_PROGRESS")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_there_and_back() {
        for status in StackStatus::ALL {
            assert_eq!(StackStatus::from(status.as_str()), *status);
        }
        let new = StackStatus::from("PAINT_IN_PROGRESS");
        assert_eq!(new, StackStatus::Other("PAINT_IN_PROGRESS".to_owned()));
        assert!(new.is_busy() && new.to_string() == "PAINT_IN_PROGRESS");
        assert!(!StackStatus::ReviewInProgress.is_busy());
        assert_eq!(serde_json::to_value(KeyState::Enabled).unwrap(), "Enabled");
    }
}
