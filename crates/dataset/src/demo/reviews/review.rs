//! One product review as its author wrote it, and its label.

/// Stars and text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Review {
    /// 1 to 5.
    pub stars: f64,
    /// As written: any case, any characters.
    pub text: String,
}

/// What a review says about the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sentiment {
    /// Fewer than three stars.
    Negative = 0,
    /// Five stars.
    Positive = 1,
}

impl Review {
    /// Five stars are positive, one or two are negative; reviews in between are left out of the data set.
    pub(crate) fn label(&self) -> Option<Sentiment> {
        if self.stars == 5.0 {
            Some(Sentiment::Positive)
        } else if self.stars < 3.0 {
            Some(Sentiment::Negative)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clear_verdicts_have_a_label() {
        let label = |stars| {
            Review {
                stars,
                text: String::new(),
            }
            .label()
        };
        assert_eq!(label(5.0), Some(Sentiment::Positive));
        assert_eq!(label(2.0), Some(Sentiment::Negative));
        assert_eq!(label(1.0), Some(Sentiment::Negative));
        assert_eq!(label(3.0), None);
        assert_eq!(label(4.0), None);
    }
}
